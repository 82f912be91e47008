# Cross build for 64-bit Arm Linux with glibc 2.28 or newer, by Zig's clang: PyPI's ziglang brings it with the headers and
# symbol versions of every glibc. A cross gcc links against the glibc of its own distribution instead, and the result does
# not start on an older board. C7X_ZIG names the program zig, C7X_GLIBC another version.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES C7X_ZIG C7X_GLIBC)
if(NOT C7X_ZIG)
  find_program(C7X_ZIG NAMES zig REQUIRED)
endif()
if(NOT C7X_GLIBC)
  set(C7X_GLIBC 2.28)
endif()
# Zig builds its C++ library once for each set of flags and links it in: -s is part of every command, so that CMake's first
# try and the last link share one. It also leaves out the paths of Zig's cache.
set(CMAKE_C_COMPILER "${C7X_ZIG}" cc -target aarch64-linux-gnu.${C7X_GLIBC} -s)
set(CMAKE_CXX_COMPILER "${C7X_ZIG}" c++ -target aarch64-linux-gnu.${C7X_GLIBC} -s)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
