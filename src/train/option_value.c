/* option_value.c - one value from text: strict (nothing before or after it, finite, in range), with
 * an error that says what would be right. */
#include "train/option.h"

#include "base/nearest.h"
#include "plan/passes.h"
#include "train/settings.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct value_target {
    ebb_ctx *ctx;
    const train_option *option;
    const char *text, *where;
    void *at;
} value_target;

static ebb_status refuse_range(const value_target *t) {
    const option_range *r = &t->option->range;
    const char *zero = t->option->zero;
    char range[160];
    (void)snprintf(range, sizeof range, "%s %.15g and %s %.15g%s%s",
                   r->above ? "above" : "at least", r->low, r->below ? "below" : "at most", r->high,
                   zero != NULL ? ", or " : "", zero != NULL ? zero : "");
    return ebb__fail(t->ctx, EBB_USAGE, "%s: %s is out of range: it must be %s", t->where, t->text,
                     range);
}

static bool in_range(const option_range *r, double x) {
    return (r->above ? x > r->low : x >= r->low) && (r->below ? x < r->high : x <= r->high);
}

/* strtod and strtoll skip spaces and take a plus, hexadecimal and names: nothing of that is meant.
 */
static bool looks_like_number(const char *text, bool real) {
    const char *p = text + (*text == '-');
    if (!isdigit((unsigned char)*p) && !(real && *p == '.')) {
        return false;
    }
    return strspn(p, real ? "0123456789.eE+-" : "0123456789") == strlen(p);
}

static ebb_status parse_int(const value_target *t) {
    if (!looks_like_number(t->text, false)) {
        return ebb__fail(t->ctx, EBB_USAGE, "%s: '%s' is not a whole number", t->where, t->text);
    }
    errno = 0;
    long long value = strtoll(t->text, NULL, 10);
    if (errno != 0 || !in_range(&t->option->range, (double)value)) {
        return refuse_range(t);
    }
    *(int64_t *)t->at = value;
    return EBB_OK;
}

static ebb_status parse_seed(const value_target *t) {
    errno = 0;
    unsigned long long value = 0;
    if (looks_like_number(t->text, false) && t->text[0] != '-') {
        value = strtoull(t->text, NULL, 10);
    } else {
        errno = EINVAL;
    }
    if (errno != 0) {
        return ebb__fail(t->ctx, EBB_USAGE, "%s: '%s' is not a whole number from 0 to %llu",
                         t->where, t->text, (unsigned long long)UINT64_MAX);
    }
    *(uint64_t *)t->at = value;
    return EBB_OK;
}

static bool read_real(const char *text, double *out) {
    char *end = NULL;
    *out = looks_like_number(text, true) ? strtod(text, &end) : 0;
    return end != NULL && *end == '\0' && isfinite(*out);
}

static ebb_status parse_real(const value_target *t) {
    double value = 0;
    if (!read_real(t->text, &value)) {
        return ebb__fail(t->ctx, EBB_USAGE, "%s: '%s' is not a finite number", t->where, t->text);
    }
    if (!in_range(&t->option->range, value)) {
        return refuse_range(t);
    }
    *(double *)t->at = value;
    return EBB_OK;
}

static const char *choice_at(const void *user, size_t index) {
    return ((const train_option *)user)->names[index];
}

option_choices ebb__option_choices(const train_option *option, const char *between) {
    option_choices list = {""};
    size_t used = 0;
    for (size_t i = 0; i < OPTION_MAX_CHOICES && option->names[i] != NULL; i++) {
        int n = snprintf(list.text + used, sizeof list.text - used, "%s%s", i > 0 ? between : "",
                         option->names[i]);
        used += n > 0 && (size_t)n < sizeof list.text - used ? (size_t)n : 0;
    }
    return list;
}

static ebb_status parse_choice(const value_target *t) {
    const char *const *names = t->option->names;
    size_t n = 0;
    for (; n < OPTION_MAX_CHOICES && names[n] != NULL; n++) {
        if (strcmp(names[n], t->text) == 0) {
            *(unsigned *)t->at = (unsigned)n;
            return EBB_OK;
        }
    }
    if ((t->option->flags & OPTION_NO_NUMBER) != 0 && looks_like_number(t->text, false)) {
        return ebb__fail(t->ctx, EBB_USAGE, "%s is one of %s; a number is said with --%s %s",
                         t->where, ebb__option_choices(t->option, ", ").text, t->option[1].name,
                         t->text);
    }
    return ebb__fail(t->ctx, EBB_USAGE, "%s: unknown value '%s'; did you mean %s? (%s)", t->where,
                     t->text, ebb__nearest(t->text, choice_at, t->option, n),
                     ebb__option_choices(t->option, ", ").text);
}

static ebb_status parse_switch(const value_target *t) {
    bool on = strcmp(t->text, "true") == 0;
    if (!on && strcmp(t->text, "false") != 0) {
        return ebb__fail(t->ctx, EBB_USAGE, "%s: '%s' is neither true nor false", t->where,
                         t->text);
    }
    *(bool *)t->at = on;
    return EBB_OK;
}

/* ---- sizes ---- */

static ebb_status refuse_size(const value_target *t, const char *why) {
    return ebb__fail(
        t->ctx, EBB_USAGE,
        "%s: '%s' %s; write 512M, 2G, 1.5GiB (1024-based), 80%%, auto, a plain number of bytes, "
        "or a list like 2G,512M",
        t->where, t->text, why);
}

/* The power of two that a unit stands for: K, KiB or, as sizes are printed here, " KiB"; -1: it is
 * unknown. KB is no unit: to some it is 1000 bytes. */
static int unit_power(const char *unit) {
    static const char letters[] = "BKMGTPE";
    const char *name = unit + strspn(unit, " ");
    const char *found = *name != '\0' ? strchr(letters, toupper((unsigned char)*name)) : NULL;
    if (found == NULL) {
        return -1;
    }
    bool spelled = strcasecmp(name + 1, found > letters ? "iB" : "") == 0;
    bool letter = name == unit && name[1] == '\0';
    return spelled || letter ? 10 * (int)(found - letters) : -1;
}

/* A share may have an exponent: there are configs of runs in which 60% is written so. */
static ebb_status parse_percent(const value_target *t, const char *number) {
    double value = 0;
    if (!read_real(number, &value)) {
        return refuse_size(t, "is not a size");
    }
    if (!(value > 0 && value <= 100)) {
        return refuse_size(t, "is not above 0% and at most 100%");
    }
    *(train_memory *)t->at = (train_memory){.form = MEMORY_PERCENT, .percent = value};
    return EBB_OK;
}

static ebb_status parse_bytes(const value_target *t, const char *number, const char *unit) {
    double value = 0;
    int power = *unit != '\0' ? unit_power(unit) : 0;
    if (!read_real(number, &value)) {
        return refuse_size(t, "is not a size");
    }
    if (power < 0) {
        return refuse_size(t, "has an unknown unit");
    }
    if (*unit == '\0' && strchr(number, '.') != NULL) {
        return refuse_size(t, "is not a whole number of bytes");
    }
    double scaled = floor(ldexp(value, power));
    if (!(scaled >= 1 && scaled < 0x1p62)) {
        return refuse_size(t, scaled < 1 ? "is less than a byte" : "is too large");
    }
    /* Bytes above 2^53 must not pass through a double. */
    uint64_t bytes = *unit == '\0' ? strtoull(number, NULL, 10) : (uint64_t)scaled;
    *(train_memory *)t->at = (train_memory){.form = MEMORY_BYTES, .bytes = bytes};
    return EBB_OK;
}

static ebb_status parse_one_size(const value_target *t) {
    char number[32];
    if (strcmp(t->text, "auto") == 0) {
        *(train_memory *)t->at = (train_memory){.form = MEMORY_AUTO};
        return EBB_OK;
    }
    if (t->text[0] == '-') {
        return refuse_size(t, "is negative");
    }
    size_t bytes = strlen(t->text);
    bool percent = bytes > 0 && t->text[bytes - 1] == '%';
    size_t digits = percent ? bytes - 1 : strspn(t->text, "0123456789.");
    if (digits >= sizeof number) {
        return refuse_size(t, "is too large");
    }
    (void)snprintf(number, sizeof number, "%.*s", (int)digits, t->text);
    return percent ? parse_percent(t, number) : parse_bytes(t, number, t->text + digits);
}

/* With commas: bytes of the first process, the second, and so on. */
static ebb_status parse_size(const value_target *t) {
    char list[PASS_MOST_RANKS * 24];
    char *rest = list;
    train_memory one, all = {.form = MEMORY_BYTES};
    if (strchr(t->text, ',') == NULL) {
        return parse_one_size(t);
    }
    if (snprintf(list, sizeof list, "%s", t->text) >= (int)sizeof list) {
        return refuse_size(t, "is too long");
    }
    for (const char *text = strsep(&rest, ","); text != NULL; text = strsep(&rest, ",")) {
        const value_target part = {t->ctx, t->option, text, t->where, &one};
        if (all.n_ranks == PASS_MOST_RANKS) {
            return refuse_size(t, "is too long");
        }
        TRY(parse_one_size(&part));
        if (one.form != MEMORY_BYTES) {
            return refuse_size(t, "has something else than numbers of bytes in a list");
        }
        all.by_rank[all.n_ranks++] = one.bytes;
    }
    all.bytes = all.by_rank[0];
    *(train_memory *)t->at = all;
    return EBB_OK;
}

/* ---- passes ---- */

static const char *pass_at(const void *user, size_t index) {
    (void)user;
    return ebb__pass_name((pass_id)index);
}

static ebb_status parse_pass(const value_target *t, const char *name, uint32_t *set) {
    for (int id = 0; id < PASS_COUNT; id++) {
        if (strcmp(ebb__pass_name((pass_id)id), name) != 0) {
            continue;
        }
        if (strcmp(t->option->name, "disable") == 0 && !ebb__pass_optional((pass_id)id)) {
            return ebb__fail(t->ctx, EBB_USAGE,
                             "%s: the pass '%s' is required and cannot be disabled", t->where,
                             name);
        }
        *set |= 1U << id;
        return EBB_OK;
    }
    return ebb__fail(t->ctx, EBB_USAGE, "%s: unknown pass '%s'; did you mean %s?", t->where, name,
                     ebb__nearest(name, pass_at, NULL, PASS_COUNT));
}

/* A list with commas, added to what is there. */
static ebb_status parse_passes(const value_target *t) {
    char list[256];
    char *rest = list, *name;
    uint32_t set = *(uint32_t *)t->at;
    if (snprintf(list, sizeof list, "%s", t->text) >= (int)sizeof list) {
        return ebb__fail(t->ctx, EBB_USAGE, "%s: the list of passes is too long", t->where);
    }
    while ((name = strsep(&rest, ",")) != NULL) {
        TRY(parse_pass(t, name, &set));
    }
    *(uint32_t *)t->at = set;
    return EBB_OK;
}

/* ---- all of them ---- */

static void assign_zero(const train_option *option, void *at) {
    switch (option->kind) {
    case OPTION_INT:
        *(int64_t *)at = 0;
        break;
    case OPTION_REAL:
        *(double *)at = 0;
        break;
    case OPTION_TEXT:
        *(const char **)at = NULL;
        break;
    case OPTION_PASSES:
        *(uint32_t *)at = 0;
        break;
    case OPTION_CHOICE:
        *(unsigned *)at = 0;
        break;
    case OPTION_SWITCH:
    case OPTION_SEED:
    case OPTION_SIZE:
        break;
    }
}

static ebb_status parse_text(const value_target *t) {
    if (t->text[0] == '\0' && (t->option->flags & OPTION_EMPTY) == 0) {
        return ebb__fail(t->ctx, EBB_USAGE, "%s: the value is empty", t->where);
    }
    *(const char **)t->at = t->text;
    return EBB_OK;
}

size_t ebb__option_bytes(const train_option *option) {
    static const size_t bytes[] = {
        [OPTION_SWITCH] = sizeof(bool),       [OPTION_INT] = sizeof(int64_t),
        [OPTION_SEED] = sizeof(uint64_t),     [OPTION_REAL] = sizeof(double),
        [OPTION_CHOICE] = sizeof(unsigned),   [OPTION_TEXT] = sizeof(const char *),
        [OPTION_SIZE] = sizeof(train_memory), [OPTION_PASSES] = sizeof(uint32_t)};
    return bytes[option->kind];
}

const train_option *ebb__option_meant(const train_option *option, const char *text) {
    bool number = looks_like_number(text, true) || text[0] == '\0' || text[0] == '+' ||
                  (option->zero != NULL && strcmp(text, option->zero) == 0);
    return (option->flags & OPTION_OR_TEXT) != 0 && !number ? option + 1 : option;
}

ebb_status ebb__option_assign(ebb_ctx *ctx, const train_option *option, void *base,
                              const char *text, bool literal, const char *where) {
    typedef ebb_status (*parse_fn)(const value_target *t);
    static const parse_fn parsers[] = {
        [OPTION_SWITCH] = parse_switch, [OPTION_INT] = parse_int,       [OPTION_SEED] = parse_seed,
        [OPTION_REAL] = parse_real,     [OPTION_CHOICE] = parse_choice, [OPTION_TEXT] = parse_text,
        [OPTION_SIZE] = parse_size,     [OPTION_PASSES] = parse_passes,
    };
    option = ebb__option_meant(option, text);
    value_target target = {ctx, option, text, where, (char *)base + option->offset};
    if (!literal && option->zero != NULL && strcmp(text, option->zero) == 0) {
        assign_zero(option, target.at);
        return EBB_OK;
    }
    return parsers[option->kind](&target);
}
