/* Finding the DSP's devices by its name in the device tree: their numbers change with every boot. */
#ifndef C7X_ARM_SYSFS_H
#define C7X_ARM_SYSFS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define C7X_DSP_NAME "7e000000.dsp"
#define C7X_MAX_NODES 256

/* Numbers N of the entries `prefix`N of a folder, ascending, up to C7X_MAX_NODES; their count. */
int c7x_list_numbers(const char* folder, const char* prefix, int* numbers);

/* Whether a link in sysfs leads below the DSP's device. */
int c7x_belongs_to_dsp(const char* path);

/* The first line of a small file; empty when there is none. */
void c7x_read_line(const char* path, char* text, size_t size);

/* The number of the DSP's device `prefix`N in `root`/sys/class/`class_name`, or -1. */
int c7x_find_device(const char* root, const char* class_name, const char* prefix);

#ifdef __cplusplus
}
#endif

#endif /* C7X_ARM_SYSFS_H */
