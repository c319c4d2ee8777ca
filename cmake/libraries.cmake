# What ebb links: libxsmm (optional), Random123 and xxhash, jansson, zlib, libpng and libjpeg-turbo; cmocka for tests.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
if(EBB_TESTS)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()
find_path(RANDOM123_INCLUDE Random123/philox.h REQUIRED)

add_library(ebb_libraries INTERFACE)
target_include_directories(ebb_libraries SYSTEM INTERFACE ${RANDOM123_INCLUDE})
target_link_libraries(ebb_libraries INTERFACE
    PkgConfig::JANSSON PkgConfig::XXHASH PkgConfig::ZLIB PkgConfig::PNG PkgConfig::JPEG
    Threads::Threads)

# xsmmnoblas satisfies the BLAS symbols that libxsmm falls back to; ebb never reaches them.
find_path(XSMM_INCLUDE libxsmm.h)
find_library(XSMM_LIBRARY xsmm)
find_library(XSMM_NOBLAS_LIBRARY xsmmnoblas)
if(EBB_XSMM AND EBB_X86 AND XSMM_INCLUDE AND XSMM_LIBRARY AND XSMM_NOBLAS_LIBRARY)
    target_include_directories(ebb_libraries SYSTEM INTERFACE ${XSMM_INCLUDE})
    target_link_libraries(ebb_libraries INTERFACE ${XSMM_LIBRARY} ${XSMM_NOBLAS_LIBRARY} dl)
    set(EBB_XSMM_LIBS "-lxsmm -lxsmmnoblas")
else()
    message(STATUS "building without libxsmm: matmul falls back to plain C")
    target_compile_definitions(ebb_libraries INTERFACE EBB_NO_XSMM)
    set(EBB_XSMM_LIBS "")
endif()
target_link_libraries(ebb_libraries INTERFACE ${CMAKE_DL_LIBS} m)

# Only the plugin needs MPI, and there is one only where MPI is.
set(EBB_MPI_FOUND FALSE)
if(EBB_MPI)
    find_package(MPI QUIET COMPONENTS C)
    set(EBB_MPI_FOUND ${MPI_C_FOUND})
endif()
if(NOT EBB_MPI_FOUND)
    message(STATUS "building without MPI: one process only")
endif()
