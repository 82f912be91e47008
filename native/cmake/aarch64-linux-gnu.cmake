# Cross build for 64-bit Arm Linux (the cores beside the DSP); Debian: apt install g++-aarch64-linux-gnu.
# Tests run under qemu-user when it is installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
find_program(C7X_QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
if(C7X_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${C7X_QEMU_AARCH64};-L;/usr/aarch64-linux-gnu")
endif()
