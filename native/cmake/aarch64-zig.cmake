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
set(CMAKE_C_COMPILER "${C7X_ZIG}" cc -target aarch64-linux-gnu.${C7X_GLIBC})
set(CMAKE_CXX_COMPILER "${C7X_ZIG}" c++ -target aarch64-linux-gnu.${C7X_GLIBC})
# Zig keeps its own C++ library inside what it links; paths of its cache stay out with the symbols.
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
