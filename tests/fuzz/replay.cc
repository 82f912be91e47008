// Runs a fuzz target once with every file of the folders and files named on the command line, in the order of their names.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::string> files_of(const std::string& path) {
  std::vector<std::string> files;
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) return {path};
  while (const dirent* entry = readdir(folder)) {
    const std::string file = path + "/" + entry->d_name;
    struct stat info;
    if (stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode)) files.push_back(file);
  }
  closedir(folder);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const std::string& path : files_of(argv[i])) {
      FILE* const file = std::fopen(path.c_str(), "rb");
      if (file == nullptr) {
        std::perror(path.c_str());
        return 1;
      }
      std::vector<uint8_t> bytes;
      uint8_t chunk[4096];
      for (size_t got; (got = std::fread(chunk, 1, sizeof chunk, file)) > 0;) bytes.insert(bytes.end(), chunk, chunk + got);
      std::fclose(file);
      // Seen when the target dies with it.
      std::printf("%s\n", path.c_str());
      std::fflush(stdout);
      bytes.shrink_to_fit();
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      count += 1;
    }
  }
  std::printf("%zu files\n", count);
  return count == 0;
}
