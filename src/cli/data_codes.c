/* data_codes.c - `ebb data codes learn FILE... OUT --codes N` and `ebb data codes apply CODES FILE
 * OUT`: byte-pair codes without a model; CODES may be a folder with GPT-2's files. "-" are the
 * standard streams. */
#include "cli/command.h"

#include "base/file.h"
#include "data/codes_gpt2.h"
#include "data/codes_words.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static bool is_stream(const char *path) {
    return strcmp(path, "-") == 0;
}

/* Where to write: a stream, or what a link leads to. */
static ebb_status output_of(ebb_ctx *ctx, const char *path, char out[1024]) {
    if (!is_stream(path)) {
        return ebb__file_follow(ctx, path, out);
    }
    (void)snprintf(out, 1024, "-");
    return EBB_OK;
}

/* The last of several texts is easily taken for the file to write, and would be lost. */
static ebb_status check_output(ebb_ctx *ctx, const char *path) {
    static const char begins[] = "#version";
    char head[sizeof begins - 1] = "";
    struct stat found;
    size_t n = 0;
    FILE *file = stat(path, &found) == 0 && S_ISREG(found.st_mode) ? fopen(path, "rb") : NULL;
    if (file != NULL) {
        n = fread(head, 1, sizeof head, file);
        (void)fclose(file);
    }
    return n == 0 || (n == sizeof head && memcmp(head, begins, n) == 0)
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "%s: is there and holds no codes; the last word is the file to write: "
                           "name a new one",
                           path);
}

/* Whether what is written would take the place of what is read. */
static ebb_status check_apart(ebb_ctx *ctx, const char *from, const char *to) {
    struct stat a, b;
    bool same = !is_stream(from) && !is_stream(to) && stat(from, &a) == 0 && stat(to, &b) == 0 &&
                S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    return !same ? EBB_OK
                 : ebb__fail(ctx, EBB_USAGE,
                             "%s: is read, and would be written over; name another file to write",
                             from);
}

static ebb_status learn(cli_call *call, const char *const *files, int n, data_codes *codes) {
    words_list words;
    ebb_status status;
    ebb__words_list_init(call->ctx, 0, &words);
    for (int i = 0; i < n; i++) {
        TRY_OUT(ebb__words_list_read(&words, files[i]));
    }
    TRY_OUT(ebb__codes_learn(&words, (uint64_t)call->settings.codes, 0, codes));
    if (codes->n_pairs < call->settings.codes) {
        ebb__log(call->ctx, EBB_LOG_WARN,
                 "only %u pairs stand together at least twice: so many were learnt, not %" PRId64,
                 codes->n_pairs, call->settings.codes);
    }
out:
    ebb__words_list_free(&words);
    return status;
}

static ebb_status learn_command(cli_call *call, const char *const *files, int n, const char *to) {
    data_codes codes = {.ctx = call->ctx};
    char path[1024];
    int streams = 0;
    ebb_status status;
    for (int i = 0; i < n; i++) {
        streams += is_stream(files[i]);
    }
    if (call->settings.codes == 0 || streams > 1) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         streams > 1 ? "data codes learn: standard input (-) can be read only once"
                                     : "data codes learn needs a number of pairs: --codes N");
    }
    TRY_OUT(output_of(call->ctx, to, path));
    TRY_OUT(is_stream(to) ? EBB_OK : check_output(call->ctx, path));
    TRY_OUT(learn(call, files, n, &codes));
    TRY_OUT(ebb__codes_save(&codes, path));
    if (call->settings.json && !is_stream(to)) {
        status =
            ebb__cli_print_json(call->ctx, json_pack("{s:i, s:s, s:I}", "schema", 1, "path", path,
                                                     "codes", (json_int_t)codes.n_pairs));
    }
out:
    ebb__codes_free(&codes);
    return status;
}

static ebb_status apply_command(cli_call *call, const char *with, const char *from,
                                const char *to) {
    data_codes codes = {.ctx = call->ctx};
    gpt2_ids ids = {.pieces = {.ctx = call->ctx}};
    codes_applied done;
    bool numbers = call->settings.ids;
    char path[1024];
    ebb_status status;
    TRY_OUT(output_of(call->ctx, to, path));
    TRY_OUT(check_apart(call->ctx, with, path));
    TRY_OUT(check_apart(call->ctx, from, path));
    if (numbers && !ebb__gpt2_is_folder(with)) {
        TRY_OUT(ebb__fail(call->ctx, EBB_USAGE,
                          "--ids needs numbers: a folder with GPT-2's vocab.json and merges.txt in "
                          "place of %s",
                          with));
    }
    TRY_OUT(numbers ? ebb__gpt2_load(call->ctx, with, EBB_DATA, &codes, &ids)
                    : ebb__codes_load(call->ctx, with, EBB_DATA, &codes));
    TRY_OUT(ebb__codes_apply(&codes, numbers ? &ids : NULL, from, path, &done));
    if (call->settings.json && !is_stream(to)) {
        status = ebb__cli_print_json(
            call->ctx, json_pack("{s:i, s:s, s:I, s:I}", "schema", 1, "path", path, "words",
                                 (json_int_t)done.words, "pieces", (json_int_t)done.pieces));
    }
out:
    ebb__codes_free(&codes);
    ebb__vocab_free(&ids.pieces);
    return status;
}

ebb_status ebb__cli_data_codes(cli_call *call) {
    const char *const *words = call->words;
    int n = call->n_words;
    ebb_ctx_on_progress(call->ctx, ebb__cli_progress_plan, &call->progress);
    ebb_status status;
    if (strcmp(words[0], "learn") == 0) {
        status = learn_command(call, words + 1, n - 2, words[n - 1]);
    } else if (strcmp(words[0], "apply") == 0 && n == 4) {
        status = apply_command(call, words[1], words[2], words[3]);
    } else {
        status = ebb__fail(call->ctx, EBB_USAGE,
                           "usage: ebb data codes learn FILE... OUT --codes N, or ebb data codes "
                           "apply CODES FILE OUT");
    }
    ebb__cli_progress_clear(&call->progress);
    return status;
}
