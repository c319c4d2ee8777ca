/* program.c - all kernels as one program of the driver, compiled when a device is opened for the
 * first time and kept in a file after that.
 *
 * The file is named by a hash of the texts, the options, the driver and the device; its bytes begin
 * with a mark, that hash, their number and their own hash. Whatever is wrong with a file, or with
 * what the driver says of it, the texts are compiled again and it is replaced.
 */
#include "device/opencl/opencl.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { MOST_TEXTS = 64, PATH_BYTES = 1024, LOG_BYTES = 4096, MOST_BINARY = 256 << 20 };

typedef struct cache_head {
    char mark[8];
    uint64_t key, bytes, hash;
} cache_head;
static const char cache_mark[8] = "ebb clb";

static const char *options_of(const cl_state *state) {
    /* Who cannot promise it may not be asked for it; the self-test looks at what is done. */
    return (state->facts.fp32 & CL_FP_EXACT_DIVISION) != 0
               ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
               : "-cl-std=CL1.2";
}

/* Texts of a program: all kernels, and one text more, which may be empty. */
static uint64_t key_of(const cl_state *state, const char *more) {
    const cl_facts *f = &state->facts;
    const char *options = options_of(state);
    uint64_t hash = XXH3_64bits(options, strlen(options));
    hash = XXH3_64bits_withSeed(f->name, strlen(f->name), hash);
    hash = XXH3_64bits_withSeed(f->driver, strlen(f->driver), hash);
    hash = XXH3_64bits_withSeed(f->platform, strlen(f->platform), hash);
    for (int32_t i = 0; i < ebb__gpu_sources; i++) {
        hash = XXH3_64bits_withSeed(ebb__gpu_source[i], strlen(ebb__gpu_source[i]), hash);
    }
    return XXH3_64bits_withSeed(more, strlen(more), hash);
}

/* ---- the texts ---- */

static ebb_status refuse(ebb_ctx *ctx, cl_state *state, cl_handle program, int32_t code) {
    char log[LOG_BYTES] = "";
    size_t got = 0;
    (void)state->api.clGetProgramBuildInfo(program, state->id, CL_PROGRAM_INFO_LOG, sizeof log - 1,
                                           log, &got);
    log[sizeof log - 1] = '\0';
    ebb__log(ctx, EBB_LOG_DEBUG, "opencl: %s", log);
    log[strcspn(log, "\n")] = '\0';
    return ebb__fail(ctx, EBB_USAGE,
                     "opencl: %s: the driver does not compile the kernels (error %d): %.300s; "
                     "--verbose shows all it says",
                     state->facts.name, (int)code, log);
}

static ebb_status compile(ebb_ctx *ctx, cl_state *state, const char *more, cl_handle *out) {
    const char *texts[MOST_TEXTS];
    int32_t code = CL_OK, n = 0;
    for (; n < ebb__gpu_sources && n < MOST_TEXTS - 1; n++) {
        texts[n] = ebb__gpu_source[n];
    }
    texts[n++] = more;
    *out = state->api.clCreateProgramWithSource(state->context, (uint32_t)n, texts, NULL, &code);
    TRY(ebb__cl_check(ctx, code, "taking the kernels"));
    code = state->api.clBuildProgram(*out, 1, &state->id, options_of(state), NULL, NULL);
    return code == CL_OK ? EBB_OK : refuse(ctx, state, *out, code);
}

/* ---- the file ---- */

static ebb_status read_binary(ebb_ctx *ctx, const char *path, uint64_t key, unsigned char **out,
                              size_t *bytes) {
    cache_head head;
    uint64_t size = 0;
    int fd = -1;
    ebb_status status = EBB_OK;
    *out = NULL;
    *bytes = 0;
    TRY(ebb__file_open(ctx, path, &fd, &size));
    if (size <= sizeof head || size > MOST_BINARY) {
        goto out;
    }
    TRY_OUT(ebb__file_pread(ctx, fd, path, &head, sizeof head, 0));
    if (memcmp(head.mark, cache_mark, sizeof cache_mark) != 0 || head.key != key ||
        head.bytes != size - sizeof head) {
        goto out;
    }
    TRY_OUT(ebb__alloc(ctx, 1, (size_t)head.bytes, out));
    TRY_OUT(ebb__file_pread(ctx, fd, path, *out, (size_t)head.bytes, sizeof head));
    *bytes = XXH3_64bits(*out, (size_t)head.bytes) == head.hash ? (size_t)head.bytes : 0;
out:
    ebb__file_close(fd);
    return status;
}

/* True if the program was made of it. */
static bool take_binary(cl_state *state, const unsigned char *binary, size_t bytes,
                        cl_handle *out) {
    int32_t code = CL_OK, status = CL_OK;
    *out = state->api.clCreateProgramWithBinary(state->context, 1, &state->id, &bytes, &binary,
                                                &status, &code);
    if (code == CL_OK && status == CL_OK) {
        code = state->api.clBuildProgram(*out, 1, &state->id, options_of(state), NULL, NULL);
        if (code == CL_OK) {
            return true;
        }
    }
    if (*out != NULL) {
        (void)state->api.clReleaseProgram(*out);
        *out = NULL;
    }
    return false;
}

static ebb_status write_binary(ebb_ctx *ctx, cl_state *state, cl_handle program, const char *path,
                               uint64_t key) {
    size_t bytes = 0;
    unsigned char *binary = NULL;
    file_writer writer;
    if (state->api.clGetProgramInfo(program, CL_PROGRAM_INFO_BINARY_SIZES, sizeof bytes, &bytes,
                                    NULL) != CL_OK ||
        bytes == 0 || bytes > MOST_BINARY) {
        return EBB_OK; /* the driver does not give it out */
    }
    TRY(ebb__alloc(ctx, 1, bytes, &binary));
    ebb_status status = EBB_OK;
    if (state->api.clGetProgramInfo(program, CL_PROGRAM_INFO_BINARIES, sizeof binary, &binary,
                                    NULL) == CL_OK) {
        cache_head head = {.key = key, .bytes = bytes, .hash = XXH3_64bits(binary, bytes)};
        memcpy(head.mark, cache_mark, sizeof cache_mark);
        TRY_OUT(ebb__file_create(ctx, path, &writer));
        status = ebb__file_write(&writer, &head, sizeof head);
        status = status == EBB_OK ? ebb__file_write(&writer, binary, bytes) : status;
        status = status == EBB_OK ? ebb__file_commit(&writer) : status;
        ebb__file_abandon(&writer);
    }
out:
    ebb__free(ctx, binary);
    return status;
}

static ebb_status build(ebb_ctx *ctx, cl_state *state, const char *more, cl_handle *out) {
    char path[PATH_BYTES], name[48];
    unsigned char *binary = NULL;
    size_t bytes = 0;
    uint64_t key = key_of(state, more);
    if (state->folder == NULL) {
        return compile(ctx, state, more, out);
    }
    (void)snprintf(name, sizeof name, "opencl-%016" PRIx64 ".bin", key);
    TRY(ebb__file_join(ctx, state->folder, name, path, sizeof path));
    bool known = ebb__file_exists(path) && read_binary(ctx, path, key, &binary, &bytes) == EBB_OK &&
                 bytes > 0 && take_binary(state, binary, bytes, out);
    ebb__free(ctx, binary);
    if (known) {
        return EBB_OK;
    }
    TRY(compile(ctx, state, more, out));
    /* Where it cannot be kept, it is compiled again the next time. */
    if (ebb__file_make_dir(ctx, state->folder) != EBB_OK ||
        write_binary(ctx, state, *out, path, key) != EBB_OK) {
        ebb__log(ctx, EBB_LOG_WARN, "%s; kernels are compiled at every start", ebb_last_error(ctx));
    }
    return EBB_OK;
}

ebb_status ebb__cl_build(ebb_ctx *ctx, cl_state *state, const char *more) {
    cl_handle program = NULL;
    TRY(ebb__realloc(state->ctx, state->programs, (size_t)state->n_programs + 1,
                     sizeof *state->programs, &state->programs));
    ebb_status status = build(ctx, state, more, &program);
    if (program != NULL) {
        state->programs[state->n_programs++] = program;
    }
    return status;
}

cl_handle ebb__cl_known(const cl_state *state, const char *entry) {
    for (int32_t i = 0; i < state->n_entries; i++) {
        if (strcmp(state->entries[i].name, entry) == 0) {
            return state->entries[i].kernel;
        }
    }
    return NULL;
}

ebb_status ebb__cl_kernel(ebb_ctx *ctx, cl_state *state, const char *entry, cl_handle *out) {
    char name[CL_ENTRY_BYTES + 4];
    int32_t code = CL_OK;
    *out = ebb__cl_known(state, entry);
    if (*out != NULL) {
        return EBB_OK;
    }
    (void)snprintf(name, sizeof name, "k_%s", entry);
    TRY(ebb__realloc(state->ctx, state->entries, (size_t)state->n_entries + 1,
                     sizeof *state->entries, &state->entries));
    /* What was compiled last has the kernels of the others too. */
    *out = state->api.clCreateKernel(state->programs[state->n_programs - 1], name, &code);
    TRY(ebb__cl_check(ctx, code, name));
    cl_entry *fresh = &state->entries[state->n_entries++];
    *fresh = (cl_entry){.kernel = *out};
    (void)snprintf(fresh->name, sizeof fresh->name, "%s", entry);
    return EBB_OK;
}
