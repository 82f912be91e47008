# Targets c7x::hostemu_<CORE>: headers and flags of the host emulation. Works where it lies in the source tree and where
# it is installed.
get_filename_component(_c7x_hostemu_here "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
foreach(_c7x_hostemu_root "${_c7x_hostemu_here}/.." "${_c7x_hostemu_here}/../../../host_emulation")
  if(EXISTS "${_c7x_hostemu_root}/include/common/c7x_emu/emulation.h")
    get_filename_component(_c7x_hostemu_include "${_c7x_hostemu_root}/include" REALPATH)
  endif()
endforeach()
if(NOT _c7x_hostemu_include)
  set(c7x-hostemu_FOUND FALSE)
  set(c7x-hostemu_NOT_FOUND_MESSAGE "the headers of the host emulation are missing beside ${_c7x_hostemu_here}")
  return()
endif()

foreach(_c7x_hostemu_folder C7100 C7120 C7504 C7524-MMA2_256)
  string(REPLACE "-MMA2_256" "" _c7x_hostemu_core "${_c7x_hostemu_folder}")
  if(NOT TARGET c7x::hostemu_${_c7x_hostemu_core})
    add_library(c7x::hostemu_${_c7x_hostemu_core} INTERFACE IMPORTED)
    # As in c7x/toolchain/hostemu.py.
    set_target_properties(c7x::hostemu_${_c7x_hostemu_core} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_c7x_hostemu_include}/${_c7x_hostemu_folder}"
      INTERFACE_COMPILE_DEFINITIONS "_HOST_BUILD;__${_c7x_hostemu_core}__=1;__C7000__=1;__C7X_UNSTABLE_API=1"
      INTERFACE_COMPILE_OPTIONS "-fno-strict-aliasing;-fno-math-errno;-ffp-contract=off;-Wno-unknown-pragmas"
      INTERFACE_COMPILE_FEATURES cxx_std_14)
  endif()
endforeach()
set(c7x-hostemu_FOUND TRUE)
