/* run.c - the settings of a trained run, for a command that uses it: those stored with it; only
 * what the machine gives can be asked for anew. */
#include "cli/command.h"

#include "base/file.h"
#include "kind/stored.h"

#include <string.h>

static ebb_status check_kind(ebb_ctx *ctx, const char *dir, const model_kind *wanted) {
    const model_kind *found = wanted;
    TRY(ebb__stored_kind(ctx, dir, &found));
    return found == wanted ? EBB_OK
                           : ebb__fail(ctx, EBB_MODEL, "%s: is %s, not %s; ebb %s can use it", dir,
                                       found->what, wanted->what, found->used_by);
}

static void copy_option(const train_option *option, const cli_settings *from, cli_settings *to) {
    memcpy((char *)to + option->offset, (const char *)from + option->offset,
           ebb__option_bytes(option));
}

/* Options of the kind's own that were given for this command. */
static void take_own(const cli_settings *asked, cli_settings *run) {
    size_t begin = offsetof(train_settings, own), end = begin + SETTINGS_OWN_BYTES;
    for (size_t i = 0; i < ebb__cli_option_count(run->run.kind); i++) {
        const train_option *option = ebb__cli_option(run->run.kind, i);
        if (asked->given[i] && option->offset >= begin && option->offset < end) {
            copy_option(option, asked, run);
        }
    }
}

ebb_status ebb__cli_load_run(const cli_settings *asked, const char *dir, cli_settings *run) {
    option_set set = ebb__cli_set(run);
    TRY(check_kind(asked->ctx, dir, run->run.kind));
    TRY(ebb__stored_load(&set, dir));
    if (ebb__cli_given(asked, "batch")) {
        TRY(ebb__cli_refuse_auto(asked->ctx, &asked->run));
        run->run.batch = asked->run.batch;
        run->run.batch_tokens = 0;
    }
    if (ebb__cli_given(asked, "shards")) {
        run->run.shards = asked->run.shards;
    } else if (run->run.shards > 0 && run->run.batch % run->run.shards != 0) {
        run->run.shards = 1; /* those of training, and another batch */
    }
    if (asked->run.kind == run->run.kind) {
        take_own(asked, run);
    }
    if (ebb__cli_given(asked, "memory")) {
        run->run.memory = asked->run.memory;
    }
    if (ebb__cli_given(asked, "threads")) {
        run->run.threads = asked->run.threads;
    }
    run->run.dev = asked->run.dev;
    run->run.host_memory = asked->run.host_memory;
    run->run.weights = asked->run.weights;
    run->run.tune_folder = asked->run.tune_folder;
    run->run.tune_seconds = asked->run.tune_seconds;
    return ebb__options_resolve(&set);
}

/* What of a run's settings its weights cannot do without. */
static bool is_of_model(const train_option *option) {
    return (option->flags & OPTION_MATH) != 0 && option->kind != OPTION_TEXT &&
           (strcmp(option->group, "Model") == 0 || strcmp(option->name, "tokens") == 0 ||
            strcmp(option->name, "codes-apart") == 0);
}

/* The settings in a folder that something is taken from, and whose they are; they are read where
 * the kind is that of `settings`. NULL: no run is there. */
static ebb_status read_other(const cli_settings *settings, const char *dir, cli_settings *run,
                             const model_kind **out) {
    const model_kind *kind = settings->run.kind;
    page_text path = {.ctx = settings->ctx};
    ebb_status status = EBB_OK;
    option_set set;
    *out = NULL;
    TRY_OUT(ebb__page_put(&path, "%s/config", dir));
    if (!ebb__file_exists(path.bytes)) {
        goto out; /* a file of weights, or of words */
    }
    TRY_OUT(ebb__stored_kind(settings->ctx, dir, out));
    if (*out == kind) {
        TRY_OUT(ebb__cli_settings_init(settings->ctx, kind, run));
        set = ebb__cli_set(run);
        TRY_OUT(ebb__config_load(&set, path.bytes, EBB_MODEL));
    }
out:
    ebb__page_text_fini(&path);
    return status;
}

/* A size of the vocabulary, or a number of codes, where both are those of the run that is started
 * from: who gave another one is told. A config has the default, which nobody gave. */
static void warn_of_numbers(const cli_settings *settings, const cli_settings *run,
                            const cli_settings *plain) {
    static const char *const numbers[] = {"vocab", "src-vocab", "tgt-vocab", "codes"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const train_option *option = ebb__cli_find(settings->run.kind, numbers[i]);
        bool codes = strcmp(numbers[i], "codes") == 0;
        const char *from = codes ? settings->run.codes_from : settings->run.vocab_from;
        if (option == NULL || from != NULL || !ebb__cli_given(settings, numbers[i])) {
            continue;
        }
        const char *own = (const char *)settings + option->offset;
        size_t bytes = ebb__option_bytes(option);
        bool all = !codes && *(const int64_t *)own <= 0;
        if (!all && memcmp(own, (const char *)run + option->offset, bytes) != 0 &&
            memcmp(own, (const char *)plain + option->offset, bytes) != 0) {
            ebb__log(settings->ctx, EBB_LOG_WARN, "--%s %lld is not used: --init %s gives %s",
                     numbers[i], (long long)*(const int64_t *)own, settings->run.init_path,
                     codes ? "its codes" : "its vocabulary, to which --new-words N adds");
        }
    }
}

static ebb_status take_all(cli_settings *settings, const cli_settings *run) {
    cli_settings plain = {.ctx = settings->ctx};
    ebb_status status = EBB_OK;
    ebb__region_init(&plain.region, settings->ctx);
    for (size_t i = 0; i < ebb__cli_option_count(settings->run.kind); i++) {
        const train_option *option = ebb__cli_option(settings->run.kind, i);
        if (!settings->given[i] && is_of_model(option)) {
            copy_option(option, run, settings);
        }
    }
    if (settings->run.tokens != run->run.tokens) {
        TRY_OUT(ebb__fail(settings->ctx, EBB_USAGE,
                          "--init %s: its tokens are other ones: give no --tokens, or start "
                          "without --init",
                          settings->run.init_path));
    }
    TRY_OUT(ebb__cli_settings_init(settings->ctx, settings->run.kind, &plain));
    warn_of_numbers(settings, run, &plain);
out:
    ebb__cli_settings_fini(&plain);
    return status;
}

/* Where the settings are that the model's are taken from: in the run that is started from. Where
 * that is gone, the run that was started from it knows them. */
static const char *whose_model(const cli_settings *settings, const char *out_dir) {
    const char *from = settings->run.init_path;
    bool gone = !ebb__file_exists(from) && !settings->run.fresh;
    return gone && out_dir != NULL ? out_dir : from;
}

/* Words of a run that was trained on other tokens would all be unknown. */
static ebb_status check_words(const cli_settings *settings) {
    const train_option *tokens = ebb__cli_find(settings->run.kind, "tokens");
    const char *dir = settings->run.vocab_from;
    const model_kind *kind = NULL;
    cli_settings run = {.ctx = settings->ctx};
    ebb__region_init(&run.region, settings->ctx);
    ebb_status status = dir != NULL ? read_other(settings, dir, &run, &kind) : EBB_OK;
    if (status == EBB_OK && kind == settings->run.kind && run.run.tokens != settings->run.tokens) {
        status = ebb__fail(settings->ctx, EBB_USAGE,
                           "--vocab %s: its words are those of --tokens %s; give that too, or "
                           "another --vocab",
                           dir, tokens->names[run.run.tokens]);
    }
    ebb__cli_settings_fini(&run);
    return status;
}

ebb_status ebb__cli_take_model(cli_settings *settings, const char *out_dir) {
    const model_kind *kind = NULL;
    cli_settings run = {.ctx = settings->ctx};
    ebb_status status = EBB_OK;
    ebb__region_init(&run.region, settings->ctx);
    if (settings->run.kind->word_rows == NULL) {
        goto out;
    }
    if (settings->run.init_path != NULL) {
        const char *dir = whose_model(settings, out_dir);
        TRY_OUT(read_other(settings, dir, &run, &kind));
        TRY_OUT(kind != NULL ? check_kind(settings->ctx, dir, settings->run.kind) : EBB_OK);
        TRY_OUT(kind != NULL ? take_all(settings, &run) : EBB_OK);
    }
    TRY_OUT(check_words(settings));
out:
    ebb__cli_settings_fini(&run);
    return status;
}
