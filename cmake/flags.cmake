# How every source is compiled. No -march=native and no contraction: the same bits on any x86-64.
# No strict aliasing: arena bytes are reused for values of any type.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(EBB_X86 FALSE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(EBB_X86 TRUE)
endif()

add_library(ebb_flags INTERFACE)
target_include_directories(ebb_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(ebb_flags INTERFACE _GNU_SOURCE $<$<NOT:$<BOOL:${EBB_X86}>>:EBB_NO_AVX2>)
target_compile_options(ebb_flags INTERFACE
    -O2 -g -ffp-contract=off -fvisibility=hidden -fno-strict-aliasing
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
    -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef
    -Wdouble-promotion -Werror)

if(EBB_SANITIZE STREQUAL "")
    target_compile_options(ebb_flags INTERFACE -fstack-protector-strong
        $<$<BOOL:${EBB_X86}>:-fcf-protection>)
    target_compile_definitions(ebb_flags INTERFACE _FORTIFY_SOURCE=2)
    target_link_options(ebb_flags INTERFACE LINKER:-z,relro,-z,now,-z,noexecstack)
elseif(EBB_SANITIZE STREQUAL "address")
    set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(EBB_SANITIZE STREQUAL "thread")
    set(sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(EBB_SANITIZE STREQUAL "fuzz")
    # After the -O2 above, so it wins: inputs a second count, but so does the time to build.
    set(sanitize -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all
        -fno-omit-frame-pointer -O1)
else()
    message(FATAL_ERROR
        "EBB_SANITIZE must be address, thread, fuzz or empty, not '${EBB_SANITIZE}'")
endif()
if(EBB_COVERAGE)
    # Threads count together. With -O1 lines stay what they are, but gcc warns of other things.
    target_compile_options(ebb_flags INTERFACE --coverage -fprofile-update=atomic -O1 -Wno-error)
    target_link_options(ebb_flags INTERFACE --coverage)
endif()
if(sanitize)
    target_compile_options(ebb_flags INTERFACE ${sanitize})
    target_link_options(ebb_flags INTERFACE ${sanitize})
    target_compile_definitions(ebb_flags INTERFACE EBB_SANITIZED)
endif()
