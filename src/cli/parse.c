/* parse.c - the command line: `--name value`, `--name=value`, `--switch`, `--no-switch`, words.
 *
 * All arguments are understood before any is applied, because --config may stand anywhere and must
 * still lose against the others. */
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CELLS = 1 << 14, DEFAULT_EPOCHS = 10, DEFAULT_WARMUP = 1000 };
static const int64_t most_positions = INT64_C(1) << 30;

typedef struct parse_item {
    const cli_option *option;
    const char *value;
} parse_item;

typedef struct parse_state {
    cli_settings *settings;
    cli_command command;
    const char *called;
    parse_item *items;
    size_t n_items;
} parse_state;

static const char *option_at(const void *user, size_t index) {
    const parse_state *state = user;
    const cli_option *option = ebb__cli_option(index);
    bool taken = (option->commands & (unsigned)state->command) != 0 &&
                 ebb__cli_applies(option, state->settings->run.model);
    return taken ? option->name : NULL;
}

/* An option of any kind of model. */
static bool is_known(const char *name) {
    return ebb__cli_find(MODEL_LM, name) != NULL || ebb__cli_find(MODEL_NMT, name) != NULL;
}

static ebb_status find_option(const parse_state *state, const char *name, const cli_option **out) {
    ebb_ctx *ctx = state->settings->ctx;
    *out = ebb__cli_find_for(state->command, state->settings->run.model, name);
    if (!is_known(name)) {
        return ebb__fail(
            ctx, EBB_USAGE, "unknown option --%.60s; did you mean --%s? (ebb %s --help lists all)",
            name, ebb__cli_nearest(name, option_at, state, ebb__cli_option_count()), state->called);
    }
    if (*out == NULL || ((*out)->commands & (unsigned)state->command) == 0) {
        return ebb__fail(ctx, EBB_USAGE, "ebb %s takes no --%s (ebb %s --help lists its options)",
                         state->called, name, state->called);
    }
    return EBB_OK;
}

/* One argument that starts with --; *used says how many were consumed. */
static ebb_status read_option(parse_state *state, char **argv, int left, int *used) {
    ebb_ctx *ctx = state->settings->ctx;
    const char *argument = argv[0] + 2, *equals = strchr(argument, '=');
    char name[64];
    size_t n = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    parse_item item = {NULL, equals != NULL ? equals + 1 : NULL};
    (void)snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), argument);
    const cli_option *turned_off =
        strncmp(name, "no-", 3) == 0 ? ebb__cli_find(state->settings->run.model, name + 3) : NULL;
    bool off = turned_off != NULL && turned_off->kind == CLI_SWITCH;
    TRY(find_option(state, off ? name + 3 : name, &item.option));
    *used = 1;
    if (item.option->kind == CLI_SWITCH) {
        if (equals != NULL) {
            return ebb__fail(ctx, EBB_USAGE, "--%s takes no value: write --%s or --no-%s", name,
                             item.option->name, item.option->name);
        }
        item.value = off ? "false" : "true";
    } else if (item.value == NULL) {
        if (left < 2) {
            return ebb__fail(ctx, EBB_USAGE, "--%s needs a value: --%s %s", name, name,
                             item.option->value != NULL ? item.option->value : "NAME");
        }
        item.value = argv[1];
        *used = 2;
    }
    if (ebb__cli_meant(item.option, item.value) != item.option) {
        TRY(find_option(state, item.option[1].name, &item.option));
    }
    state->items[state->n_items++] = item;
    if ((item.option->flags & CLI_PAIR) != 0 && left > *used &&
        strncmp(argv[*used], "--", 2) != 0) {
        state->items[state->n_items++] = (parse_item){item.option + 1, argv[(*used)++]};
    }
    return EBB_OK;
}

static ebb_status apply(parse_state *state) {
    cli_settings *settings = state->settings;
    bool cleared[CLI_MAX_OPTIONS] = {false};
    const char *config = NULL;
    for (size_t i = 0; i < state->n_items; i++) {
        if (strcmp(state->items[i].option->name, "config") == 0) {
            config = state->items[i].value;
        }
    }
    if (config != NULL) {
        TRY(ebb__cli_load(settings, config, EBB_USAGE));
        TRY(ebb__cli_paths_of_run(settings, config));
    }
    for (size_t i = 0; i < state->n_items; i++) {
        const cli_option *option = state->items[i].option;
        size_t index = (size_t)(option - ebb__cli_option(0));
        char where[80];
        if (option->kind == CLI_PASSES && !cleared[index]) {
            *(uint32_t *)((char *)settings + option->offset) = 0;
            cleared[index] = true;
        }
        (void)snprintf(where, sizeof where, "--%s", option->name);
        TRY(ebb__cli_assign(settings, option, state->items[i].value, false, where));
    }
    return EBB_OK;
}

ebb_status ebb__cli_parse(cli_settings *settings, cli_command command, const char *called, int argc,
                          char **argv, const char **words, int n_words, int *got, bool *help) {
    parse_state state = {settings, command, called, NULL, 0};
    bool only_words = false;
    *got = 0;
    *help = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        *help = *help || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    }
    if (*help) {
        return EBB_OK;
    }
    TRY(ebb__region_alloc(&settings->region, (size_t)argc + 1, sizeof *state.items, &state.items));
    for (int i = 0, used = 1; i < argc; i += used) {
        used = 1;
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && strncmp(argv[i], "--", 2) == 0) {
            TRY(read_option(&state, argv + i, argc - i, &used));
        } else if (!only_words && argv[i][0] == '-' && argv[i][1] != '\0') {
            return ebb__fail(settings->ctx, EBB_USAGE,
                             "unknown option %.60s; options start with --", argv[i]);
        } else if (*got == n_words) {
            return ebb__fail(settings->ctx, EBB_USAGE,
                             "unexpected argument '%.200s'%s (ebb %s --help shows the usage)",
                             argv[i], command == CLI_DECODE ? "; text is read with <FILE" : "",
                             called);
        } else {
            words[(*got)++] = argv[i];
        }
    }
    return apply(&state);
}

/* What only sentences have. */
static ebb_status check_sentences(const cli_settings *settings) {
    for (size_t i = 0; i < ebb__cli_option_count(); i++) {
        const cli_option *option = ebb__cli_option(i);
        if (settings->given[i] && (option->flags & CLI_SENTENCES) != 0) {
            return ebb__fail(settings->ctx, EBB_USAGE,
                             "--%s is about sentences: a language model reads its text as one "
                             "stream, unless --by-sentence is given",
                             option->name);
        }
    }
    return EBB_OK;
}

/* A batch is counted in one way. */
static ebb_status resolve_batch(cli_settings *settings) {
    train_settings *run = &settings->run;
    if (run->batch_tokens == 0) {
        return EBB_OK;
    }
    if (run->batch != 0 && ebb__cli_given(settings, "batch")) {
        return ebb__fail(settings->ctx, EBB_USAGE,
                         "--batch says sentences and --tokens %lld says tokens of a batch: only "
                         "one can hold",
                         (long long)run->batch_tokens);
    }
    run->batch = 0; /* as many as that makes, for each shape */
    return EBB_OK;
}

/* What the windows of a language model unroll to; how long sentences are the text says. */
static ebb_status check_window_sizes(ebb_ctx *ctx, const train_settings *run) {
    if (run->by_sentence && run->train_path != NULL) {
        return EBB_OK;
    }
    if (run->layers * run->bptt > MOST_CELLS) {
        return ebb__fail(
            ctx, EBB_USAGE,
            "--layers %lld times --bptt %lld is too large: at most %d cells are unrolled",
            (long long)run->layers, (long long)run->bptt, MOST_CELLS);
    }
    if (run->batch * run->bptt > most_positions) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--batch %lld times --bptt %lld is too large: at most %lld tokens a step",
                         (long long)run->batch, (long long)run->bptt, (long long)most_positions);
    }
    return EBB_OK;
}

/* The same for pairs of sentences, which are given here only where there is no text. */
static ebb_status check_pair_sizes(ebb_ctx *ctx, const train_settings *run) {
    if ((run->train_path == NULL) != (run->train_target == NULL) ||
        (run->valid_path == NULL) != (run->valid_target == NULL)) {
        return ebb__fail(ctx, EBB_USAGE,
                         "a translation model reads pairs of files: --train SRC TGT, "
                         "--valid SRC TGT");
    }
    if (run->tie_src && run->src_vocab != run->tgt_vocab) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--tie-src needs one vocabulary: --src-vocab %lld is not --tgt-vocab %lld",
                         (long long)run->src_vocab, (long long)run->tgt_vocab);
    }
    int64_t cells = run->enc_layers * run->src_len + run->dec_layers * run->tgt_len;
    int64_t longest = run->src_len > run->tgt_len ? run->src_len : run->tgt_len;
    int64_t rows = run->batch > 0 ? run->batch : 1; /* auto: at least */
    if (cells > MOST_CELLS) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--src-len %lld and --tgt-len %lld are too large: at most %d cells are "
                         "unrolled, these are %lld, whose outputs alone take %.0f bytes",
                         (long long)run->src_len, (long long)run->tgt_len, MOST_CELLS,
                         (long long)cells,
                         (double)cells * (double)rows * (double)run->hidden * sizeof(float));
    }
    if (rows * longest > most_positions) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--batch %lld times %lld positions is too large: at most %lld a step",
                         (long long)run->batch, (long long)longest, (long long)most_positions);
    }
    return EBB_OK;
}

ebb_status ebb__cli_need_texts(const cli_settings *settings, const char *what) {
    const train_settings *run = &settings->run;
    if (run->train_path == NULL || (run->model == MODEL_NMT && run->train_target == NULL)) {
        return ebb__fail(settings->ctx, EBB_USAGE,
                         "nothing to %s: give a text with --lm FILE, or two with --nmt SRC TGT",
                         what);
    }
    return EBB_OK;
}

ebb_status ebb__cli_resolve(cli_settings *settings) {
    train_settings *run = &settings->run;
    ebb_ctx *ctx = settings->ctx;
    if (run->embed == 0) {
        run->embed = run->hidden;
    }
    run->src_vocab = run->src_vocab == 0 ? run->vocab : run->src_vocab;
    run->tgt_vocab = run->tgt_vocab == 0 ? run->vocab : run->tgt_vocab;
    if (!ebb__cli_given(settings, "lr")) {
        run->lr = run->optimizer == UPDATE_SGD ? 1 : 0.001;
    }
    if (run->warmup == 0 &&
        (run->schedule == SCHEDULE_WARMUP || run->schedule == SCHEDULE_INVERSE)) {
        run->warmup = DEFAULT_WARMUP;
    }
    if (run->steps != 0 && !ebb__cli_given(settings, "epochs")) {
        run->epochs = 0;
    }
    if (run->epochs == 0 && run->steps == 0) {
        run->epochs = DEFAULT_EPOCHS;
    }
    if (run->tie && run->embed != run->hidden) {
        return ebb__fail(
            ctx, EBB_USAGE,
            "--tie needs an embedding as large as a layer: --embed %lld is not --hidden %lld",
            (long long)run->embed, (long long)run->hidden);
    }
    if (run->model == MODEL_LM && !run->by_sentence) {
        TRY(check_sentences(settings));
    }
    TRY(resolve_batch(settings));
    if (run->batch % run->shards != 0) {
        return ebb__fail(ctx, EBB_USAGE, "--shards %lld does not divide --batch %lld",
                         (long long)run->shards, (long long)run->batch);
    }
    return run->model == MODEL_NMT ? check_pair_sizes(ctx, run) : check_window_sizes(ctx, run);
}
