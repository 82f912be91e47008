#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sysfs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int c7x_list_numbers(const char* folder, const char* prefix, int* numbers) {
  DIR* directory = opendir(folder);
  int count = 0;
  if (directory == NULL) return 0;
  size_t skip = strlen(prefix);
  for (struct dirent* entry; (entry = readdir(directory)) != NULL && count < C7X_MAX_NODES;) {
    const char* digits = entry->d_name + skip;
    if (strncmp(entry->d_name, prefix, skip) != 0 || !isdigit((unsigned char)digits[0])) continue;
    char* end;
    long number = strtol(digits, &end, 10);
    if (*end != '\0' || number > INT_MAX) continue;
    int at = count++;
    for (; at > 0 && numbers[at - 1] > (int)number; at--) numbers[at] = numbers[at - 1];
    numbers[at] = (int)number;
  }
  closedir(directory);
  return count;
}

int c7x_belongs_to_dsp(const char* path) {
  char* real = realpath(path, NULL);
  int belongs = real != NULL && strstr(real, C7X_DSP_NAME) != NULL;
  free(real);
  return belongs;
}

void c7x_read_line(const char* path, char* text, size_t size) {
  text[0] = '\0';
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t got = read(fd, text, size - 1);
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
}

int c7x_find_device(const char* root, const char* class_name, const char* prefix) {
  char folder[PATH_MAX], link[PATH_MAX + 64];
  int numbers[C7X_MAX_NODES];
  snprintf(folder, sizeof folder, "%s/sys/class/%s", root, class_name);
  int count = c7x_list_numbers(folder, prefix, numbers);
  for (int i = 0; i < count; i++) {
    snprintf(link, sizeof link, "%s/%s%d/device", folder, prefix, numbers[i]);
    if (c7x_belongs_to_dsp(link)) return numbers[i];
  }
  return -1;
}
