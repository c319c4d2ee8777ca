/* program.c - all kernels as one program of the driver, compiled when a device is opened for the
 * first time and kept in a file after that; kernels of runs as programs beside it, of the bodies
 * that they are made of alone.
 *
 * The file is named by a hash of the texts, the options, the driver and the device; its bytes begin
 * with a mark, that hash, their number and their own hash. Whatever is wrong with a file, or with
 * what the driver says of it, the texts are compiled again and it is replaced. PoCL has no such
 * file: it keeps what it compiles itself, one kernel at a time when that is first started. Asked
 * for a binary it would compile all of them, for groups of any size: half a minute, and slower
 * code.
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

static bool keeps_itself(const cl_state *state) {
    return strstr(state->facts.platform, "PoCL") != NULL ||
           strstr(state->facts.platform, "pocl") != NULL;
}

/* Texts of a program, one after the other. */
typedef struct cl_texts {
    const char *at[MOST_TEXTS];
    int32_t n;
} cl_texts;

static cl_texts texts_of_kernels(void) {
    cl_texts texts = {.n = 0};
    for (int32_t i = 0; i < ebb__gpu_sources && i < MOST_TEXTS; i++) {
        texts.at[texts.n++] = ebb__gpu_source[i];
    }
    return texts;
}

static cl_texts texts_of_runs(const cl_state *state) {
    cl_texts texts = {.at = {GPU_BODIES}, .n = 1};
    for (int32_t i = 0; i < ebb__gpu_sources && texts.n < MOST_TEXTS - 1; i++) {
        if ((state->runs_sources >> i & 1) != 0) {
            texts.at[texts.n++] = ebb__gpu_source[i];
        }
    }
    texts.at[texts.n++] = state->runs;
    return texts;
}

static uint64_t key_of(const cl_state *state, const cl_texts *texts) {
    const cl_facts *f = &state->facts;
    const char *options = options_of(state);
    uint64_t hash = XXH3_64bits(options, strlen(options));
    hash = XXH3_64bits_withSeed(f->name, strlen(f->name), hash);
    hash = XXH3_64bits_withSeed(f->driver, strlen(f->driver), hash);
    hash = XXH3_64bits_withSeed(f->platform, strlen(f->platform), hash);
    for (int32_t i = 0; i < texts->n; i++) {
        hash = XXH3_64bits_withSeed(texts->at[i], strlen(texts->at[i]), hash);
    }
    return hash;
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

static ebb_status compile(ebb_ctx *ctx, cl_state *state, cl_texts *texts, cl_handle *out) {
    int32_t code = CL_OK;
    *out = state->api.clCreateProgramWithSource(state->context, (uint32_t)texts->n, texts->at, NULL,
                                                &code);
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

static ebb_status build(ebb_ctx *ctx, cl_state *state, cl_texts *texts, cl_handle *out) {
    char path[PATH_BYTES], name[48];
    unsigned char *binary = NULL;
    size_t bytes = 0;
    uint64_t key = key_of(state, texts);
    if (state->folder == NULL || keeps_itself(state)) {
        return compile(ctx, state, texts, out);
    }
    (void)snprintf(name, sizeof name, "opencl-%016" PRIx64 ".bin", key);
    TRY(ebb__file_join(ctx, state->folder, name, path, sizeof path));
    bool known = ebb__file_exists(path) && read_binary(ctx, path, key, &binary, &bytes) == EBB_OK &&
                 bytes > 0 && take_binary(state, binary, bytes, out);
    ebb__free(ctx, binary);
    if (known) {
        return EBB_OK;
    }
    TRY(compile(ctx, state, texts, out));
    /* Where it cannot be kept, it is compiled again the next time. */
    if (ebb__file_make_dir(ctx, state->folder) != EBB_OK ||
        write_binary(ctx, state, *out, path, key) != EBB_OK) {
        ebb__log(ctx, EBB_LOG_WARN, "%s; kernels are compiled at every start", ebb_last_error(ctx));
    }
    return EBB_OK;
}

static ebb_status add_program(ebb_ctx *ctx, cl_state *state, cl_texts *texts) {
    cl_handle program = NULL;
    TRY(ebb__realloc(state->ctx, state->programs, (size_t)state->n_programs + 1,
                     sizeof *state->programs, &state->programs));
    ebb_status status = build(ctx, state, texts, &program);
    if (program != NULL) {
        state->programs[state->n_programs++] = program;
    }
    return status;
}

ebb_status ebb__cl_build(ebb_ctx *ctx, cl_state *state) {
    cl_texts texts = texts_of_kernels();
    return add_program(ctx, state, &texts);
}

/* ---- kernels ---- */

static ebb_status create_kernel(ebb_ctx *ctx, cl_state *state, int32_t program, cl_entry *entry) {
    char name[CL_ENTRY_BYTES + 4];
    int32_t code = CL_OK;
    (void)snprintf(name, sizeof name, "k_%s", entry->name);
    entry->kernel = state->api.clCreateKernel(state->programs[program], name, &code);
    if (code != CL_OK) {
        entry->kernel = NULL;
    }
    return ebb__cl_check(ctx, code, name);
}

/* The number of an entry; a new one, without a kernel, if nobody asked for it before. */
static ebb_status find_entry(cl_state *state, const char *name, int32_t *out) {
    for (int32_t i = 0; i < state->n_entries; i++) {
        if (strcmp(state->entries[i].name, name) == 0) {
            *out = i;
            return EBB_OK;
        }
    }
    TRY(ebb__realloc(state->ctx, state->entries, (size_t)state->n_entries + 1,
                     sizeof *state->entries, &state->entries));
    cl_entry *fresh = &state->entries[state->n_entries];
    *fresh = (cl_entry){.kernel = NULL};
    (void)snprintf(fresh->name, sizeof fresh->name, "%s", name);
    *out = state->n_entries++;
    return EBB_OK;
}

ebb_status ebb__cl_entry(ebb_ctx *ctx, cl_state *state, const char *entry, int32_t *out) {
    TRY(find_entry(state, entry, out));
    return state->entries[*out].kernel != NULL
               ? EBB_OK
               : create_kernel(ctx, state, 0, &state->entries[*out]);
}

ebb_status ebb__cl_add_run(cl_state *state, const gpu_run *run, int32_t *out) {
    size_t bytes = strlen(run->text);
    int32_t known = state->n_entries;
    TRY(find_entry(state, run->name, out));
    if (*out < known) {
        return EBB_OK;
    }
    ebb_status status =
        ebb__realloc(state->ctx, state->runs, state->runs_bytes + bytes + 1, 1, &state->runs);
    if (status != EBB_OK) {
        state->n_entries = known;
        return status;
    }
    memcpy(state->runs + state->runs_bytes, run->text, bytes + 1);
    state->runs_bytes += bytes;
    state->runs_sources |= run->sources;
    return EBB_OK;
}

ebb_status ebb__cl_build_runs(ebb_ctx *ctx, cl_state *state) {
    int32_t n = 0;
    if (state->runs_bytes == 0) {
        return EBB_OK;
    }
    cl_texts texts = texts_of_runs(state);
    TRY(add_program(ctx, state, &texts));
    for (int32_t i = 0; i < state->n_entries; i++) {
        if (state->entries[i].kernel == NULL) {
            TRY(create_kernel(ctx, state, state->n_programs - 1, &state->entries[i]));
            n++;
        }
    }
    ebb__log(ctx, EBB_LOG_DEBUG, "opencl: %d kernels of runs", (int)n);
    ebb__free(state->ctx, state->runs);
    state->runs = NULL;
    state->runs_bytes = 0;
    state->runs_sources = 0;
    return EBB_OK;
}
