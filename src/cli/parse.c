/* parse.c - the command line: `--name value`, `--name=value`, `--switch`, `--no-switch`, words.
 *
 * All arguments are understood before any is applied, because --config may stand anywhere and must
 * still lose against the others. */
#include "cli/options.h"

#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

typedef struct parse_item {
    const train_option *option;
    const char *value;
} parse_item;

typedef struct parse_state {
    cli_settings *settings;
    option_command command;
    const char *called;
    parse_item *items;
    size_t n_items;
} parse_state;

static const char *option_at(const void *user, size_t index) {
    const parse_state *state = user;
    const train_option *option = ebb__cli_option(state->settings->run.kind, index);
    return (option->commands & (unsigned)state->command) != 0 ? option->name : NULL;
}

/* An option of any kind of model. */
static bool is_known(const char *name) {
    for (size_t i = 0; i < ebb__kind_count(); i++) {
        if (ebb__cli_find(ebb__kind_at(i), name) != NULL) {
            return true;
        }
    }
    return false;
}

static ebb_status find_option(const parse_state *state, const char *name,
                              const train_option **out) {
    ebb_ctx *ctx = state->settings->ctx;
    *out = ebb__cli_find_for(state->command, state->settings->run.kind, name);
    if (!is_known(name)) {
        return ebb__fail(
            ctx, EBB_USAGE, "unknown option --%.60s; did you mean --%s? (ebb %s --help lists all)",
            name,
            ebb__nearest(name, option_at, state, ebb__cli_option_count(state->settings->run.kind)),
            state->called);
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
    const train_option *turned_off =
        strncmp(name, "no-", 3) == 0 ? ebb__cli_find(state->settings->run.kind, name + 3) : NULL;
    bool off = turned_off != NULL && turned_off->kind == OPTION_SWITCH;
    TRY(find_option(state, off ? name + 3 : name, &item.option));
    *used = 1;
    if (item.option->kind == OPTION_SWITCH) {
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
    if (ebb__option_meant(item.option, item.value) != item.option) {
        TRY(find_option(state, item.option[1].name, &item.option));
    }
    state->items[state->n_items++] = item;
    if ((item.option->flags & OPTION_PAIR) != 0 && left > *used &&
        strncmp(argv[*used], "--", 2) != 0) {
        state->items[state->n_items++] = (parse_item){item.option + 1, argv[(*used)++]};
    }
    return EBB_OK;
}

static bool is_cleared(const train_option *const *list, size_t n, const train_option *option) {
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found = found || list[i] == option;
    }
    return found;
}

/* What is assigned for an item: of a list all values up to and with it, with commas between. */
static ebb_status join_values(const parse_state *state, size_t item, const char **out) {
    const train_option *option = state->items[item].option;
    size_t bytes = 0, used = 0;
    char *joined = NULL;
    *out = state->items[item].value;
    if ((option->flags & OPTION_LIST) == 0) {
        return EBB_OK;
    }
    for (size_t i = 0; i <= item; i++) {
        const parse_item *one = &state->items[i];
        bytes += one->option == option && one->value != NULL ? strlen(one->value) + 1 : 0;
    }
    TRY(ebb__region_alloc(&state->settings->region, bytes, 1, &joined));
    for (size_t i = 0; i <= item; i++) {
        if (state->items[i].option == option) {
            used += (size_t)snprintf(joined + used, bytes - used, "%s%s", used > 0 ? "," : "",
                                     state->items[i].value);
        }
    }
    *out = joined;
    return EBB_OK;
}

static ebb_status apply(parse_state *state) {
    cli_settings *settings = state->settings;
    const train_option *cleared[OPTION_MAX] = {NULL};
    size_t n_cleared = 0;
    const char *config = NULL;
    for (size_t i = 0; i < state->n_items; i++) {
        if (strcmp(state->items[i].option->name, "config") == 0) {
            config = state->items[i].value;
        }
    }
    if (config != NULL) {
        option_set set = ebb__cli_set(settings);
        TRY(ebb__config_load(&set, config, EBB_USAGE));
        TRY(ebb__paths_of_run(&set, config));
    }
    for (size_t i = 0; i < state->n_items; i++) {
        const train_option *option = state->items[i].option;
        char where[80];
        if (option->kind == OPTION_PASSES && !is_cleared(cleared, n_cleared, option)) {
            *(uint32_t *)((char *)settings + option->offset) = 0;
            cleared[n_cleared++] = option;
        }
        const char *value = NULL;
        (void)snprintf(where, sizeof where, "--%s", option->name);
        TRY(join_values(state, i, &value));
        TRY(ebb__cli_assign(settings, option, value, false, where));
    }
    return EBB_OK;
}

ebb_status ebb__cli_parse(cli_settings *settings, option_command command, const char *called,
                          int argc, char **argv, const char **words, int n_words, int *got,
                          bool *help) {
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
                             argv[i], command == FOR_DECODE ? "; text is read with <FILE" : "",
                             called);
        } else {
            words[(*got)++] = argv[i];
        }
    }
    return apply(&state);
}

ebb_status ebb__cli_need_texts(const cli_settings *settings, const char *what) {
    char list[160] = "";
    size_t used = 0;
    if (settings->run.train_path != NULL &&
        (!kind_has_pairs(&settings->run) || settings->run.train_target != NULL)) {
        return EBB_OK;
    }
    for (size_t i = 0; i < ebb__kind_count(); i++) {
        const model_kind *kind = ebb__kind_at(i);
        const train_option *texts = ebb__cli_find(kind, kind->name);
        if (texts != NULL) {
            int n = snprintf(list + used, sizeof list - used, "%s--%s %s", used > 0 ? " or " : "",
                             texts->name, texts->value);
            used += n > 0 && (size_t)n < sizeof list - used ? (size_t)n : 0;
        }
    }
    return ebb__fail(settings->ctx, EBB_USAGE, "nothing to %s: give texts with %s", what, list);
}

ebb_status ebb__cli_resolve(cli_settings *settings) {
    option_set set = ebb__cli_set(settings);
    return ebb__options_resolve(&set);
}
