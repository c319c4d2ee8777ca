/* config.c - settings as text, `key = value` a line, as train/config.c reads them. */
#include "cli/options.h"

#include "plan/passes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char escaped[] = CONFIG_ESCAPED, letters[] = CONFIG_LETTERS;

/* Shortest digits that read back as the same double. */
static ebb_status put_real(page_text *out, double value) {
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    return ebb__page_put(out, "%s", digits);
}

static bool is_plain(const train_option *option, const char *text) {
    size_t n = strlen(text);
    return n > 0 && text[0] != ' ' && text[n - 1] != ' ' && strpbrk(text, "\"\\\n\t\r#") == NULL &&
           (option->zero == NULL || strcmp(text, option->zero) != 0);
}

static ebb_status put_string(page_text *out, const train_option *option, const char *text) {
    if (is_plain(option, text)) {
        return ebb__page_put(out, "%s", text);
    }
    TRY(ebb__page_put(out, "\""));
    for (; *text != '\0'; text++) {
        const char *at = strchr(escaped, *text);
        TRY(at != NULL ? ebb__page_put(out, "\\%c", letters[at - escaped])
                       : ebb__page_put(out, "%c", *text));
    }
    return ebb__page_put(out, "\"");
}

/* Plain digits, as one would write them; an exponent only where a share is too small for them. */
static ebb_status put_percent(page_text *out, double percent) {
    char digits[40];
    for (int places = 0; places <= 17; places++) {
        (void)snprintf(digits, sizeof digits, "%.*f", places, percent);
        if (strtod(digits, NULL) == percent) {
            return ebb__page_put(out, "%s%%", digits);
        }
    }
    TRY(put_real(out, percent));
    return ebb__page_put(out, "%%");
}

static ebb_status put_memory(page_text *out, const train_memory *memory) {
    for (int32_t rank = 0; rank < memory->n_ranks; rank++) {
        TRY(ebb__page_put(out, "%s%" PRIu64, rank > 0 ? "," : "", memory->by_rank[rank]));
    }
    switch (memory->form) {
    case MEMORY_BYTES:
        return memory->n_ranks > 0 ? EBB_OK : ebb__page_put(out, "%" PRIu64, memory->bytes);
    case MEMORY_PERCENT:
        return put_percent(out, memory->percent);
    case MEMORY_AUTO:
        break;
    }
    return ebb__page_put(out, "auto");
}

static ebb_status put_passes(page_text *out, uint32_t set) {
    const char *comma = "";
    for (int id = 0; id < PASS_COUNT; id++) {
        if ((set & (1U << id)) != 0) {
            TRY(ebb__page_put(out, "%s%s", comma, ebb__pass_name((pass_id)id)));
            comma = ",";
        }
    }
    return EBB_OK;
}

static bool is_zero(const train_option *option, const void *at) {
    if (option->zero == NULL) {
        return false;
    }
    switch (option->kind) {
    case OPTION_INT:
        return *(const int64_t *)at == 0;
    case OPTION_REAL:
        return *(const double *)at == 0;
    case OPTION_TEXT:
        return *(const char *const *)at == NULL;
    case OPTION_PASSES:
        return *(const uint32_t *)at == 0;
    case OPTION_CHOICE:
        return *(const unsigned *)at == 0;
    case OPTION_SWITCH:
    case OPTION_SEED:
    case OPTION_SIZE:
        break;
    }
    return false;
}

static ebb_status put_value(page_text *out, const train_option *option, const void *at) {
    if (is_zero(option, at)) {
        return ebb__page_put(out, "%s", option->zero);
    }
    switch (option->kind) {
    case OPTION_SWITCH:
        return ebb__page_put(out, "%s", *(const bool *)at ? "true" : "false");
    case OPTION_INT:
        return ebb__page_put(out, "%" PRId64, *(const int64_t *)at);
    case OPTION_SEED:
        return ebb__page_put(out, "%" PRIu64, *(const uint64_t *)at);
    case OPTION_REAL:
        return put_real(out, *(const double *)at);
    case OPTION_CHOICE:
        return ebb__page_put(out, "%s", option->names[*(const unsigned *)at]);
    case OPTION_TEXT:
        return put_string(out, option, *(const char *const *)at);
    case OPTION_SIZE:
        return put_memory(out, at);
    case OPTION_PASSES:
        return put_passes(out, *(const uint32_t *)at);
    }
    return ebb__fail(out->ctx, EBB_INTERNAL, "option %s has no kind", option->name);
}

/* Of one whose default depends on others: that is not filled in yet. */
static bool is_open(const train_option *option, const void *at) {
    bool none = option->kind == OPTION_REAL  ? *(const double *)at <= 0
                : option->kind == OPTION_INT ? *(const int64_t *)at == 0
                                             : false;
    return (option->flags & OPTION_LATER) != 0 && option->zero == NULL && none;
}

/* Settings that came later, or that have no meaning here, leave the text of a run as it always was.
 */
static bool is_left_out(const cli_settings *settings, const train_option *option) {
    const void *at = (const char *)settings + option->offset;
    bool off = option->kind == OPTION_SWITCH ? !*(const bool *)at : is_zero(option, at);
    const model_kind *kind = settings->run.kind;
    return is_open(option, at) || ((option->flags & OPTION_RARE) != 0 && off) ||
           (kind->lacks != NULL && kind->lacks(&settings->run, option) != NULL);
}

ebb_status ebb__cli_dump(const cli_settings *settings, unsigned flags, page_text *out) {
    const model_kind *kind = settings->run.kind;
    if (kind != ebb__kind_at(0)) {
        TRY(ebb__page_put(out, "model = %s\n", kind->name));
    }
    for (size_t i = 0; i < ebb__cli_option_count(kind); i++) {
        const train_option *option = ebb__cli_option(kind, i);
        if ((option->flags & flags) != flags || is_left_out(settings, option)) {
            continue;
        }
        TRY(ebb__page_put(out, "%s = ", option->name));
        TRY(put_value(out, option, (const char *)settings + option->offset));
        TRY(ebb__page_put(out, "\n"));
    }
    return EBB_OK;
}

ebb_status ebb__cli_load(cli_settings *settings, const char *path, ebb_status failure) {
    option_set set = ebb__cli_set(settings);
    return ebb__config_load(&set, path, failure);
}
