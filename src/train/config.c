/* config.c - a config read: `key = value` a line.
 *
 * `#` starts a comment; keys are option names. A value is written plain, or in double quotes with
 * \" \\ \n \t \r where plain text would not come back as it was. */
#include "train/option_set.h"

#include "base/file.h"
#include "base/nearest.h"
#include "data/text.h"

#include <stdio.h>
#include <string.h>

enum { CONFIG_MOST_BYTES = 1 << 20 };

static const char escaped[] = CONFIG_ESCAPED, letters[] = CONFIG_LETTERS;

typedef struct config_line {
    const option_set *set;
    const char *path;
    int number;
    ebb_status status;
} config_line;

static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]) != NULL) {
        text[--n] = '\0';
    }
    return text;
}

/* Undoes the quotes in place; only a comment may follow them. */
static ebb_status unquote(const config_line *line, char *text) {
    const char *from = text + 1;
    char *to = text;
    for (; *from != '"' && *from != '\0'; from++) {
        if (*from == '\\') {
            const char *at = from[1] != '\0' ? strchr(letters, from[1]) : NULL;
            if (at == NULL) {
                break;
            }
            *to++ = escaped[at - letters];
            from++;
        } else {
            *to++ = *from;
        }
    }
    const char *rest = from + (*from == '"');
    rest += strspn(rest, " \t\r");
    if (*from != '"' || (*rest != '\0' && *rest != '#')) {
        return ebb__fail(line->set->ctx, line->status, "%s:%d: the quotes are not right",
                         line->path, line->number);
    }
    *to = '\0';
    return EBB_OK;
}

static const char *key_at(const void *user, size_t index) {
    const train_option *option = ebb__options_at(user, index);
    return strcmp(option->name, "config") != 0 ? option->name : NULL;
}

/* Settings of one kind of model mean nothing to another. */
static ebb_status check_model(const config_line *line, const char *value) {
    const char *name = line->set->kind->name;
    return strcmp(value, name) == 0 ? EBB_OK
                                    : ebb__fail(line->set->ctx, line->status,
                                                "%s:%d: these are settings of a model of kind "
                                                "'%.60s', not %s",
                                                line->path, line->number, value, name);
}

static ebb_status load_line(const config_line *line, char *text) {
    ebb_ctx *ctx = line->set->ctx;
    text = trim(text);
    if (*text == '\0' || *text == '#') {
        return EBB_OK;
    }
    char *equals = strchr(text, '=');
    if (equals == NULL) {
        return ebb__fail(ctx, line->status, "%s:%d: no '=': a line is `key = value`", line->path,
                         line->number);
    }
    *equals = '\0';
    char *key = trim(text), *value = trim(equals + 1);
    bool quoted = *value == '"';
    if (strcmp(key, "model") == 0) {
        return check_model(line, value);
    }
    const train_option *option = ebb__options_find(line->set, key);
    if (option == NULL || strcmp(key, "config") == 0) {
        return ebb__fail(ctx, line->status, "%s:%d: unknown key '%.60s'; did you mean '%s'?",
                         line->path, line->number, key,
                         ebb__nearest(key, key_at, line->set, ebb__options_count(line->set)));
    }
    if (quoted) {
        TRY(unquote(line, value));
    } else {
        value[strcspn(value, "#")] = '\0';
        value = trim(value);
    }
    char where[512];
    (void)snprintf(where, sizeof where, "%s:%d: %s", line->path, line->number, key);
    if (option->kind == OPTION_PASSES) {
        *(uint32_t *)((char *)line->set->base + option->offset) = 0;
    }
    ebb_status status = ebb__options_assign(line->set, option, value, quoted, where);
    return status == EBB_USAGE ? line->status : status;
}

ebb_status ebb__config_load(const option_set *set, const char *path, ebb_status failure) {
    config_line line = {set, path, 0, failure};
    char *read = NULL, *text = NULL;
    size_t bytes = 0;
    ebb_status status;
    TRY(ebb__file_read_all(set->ctx, path, CONFIG_MOST_BYTES, &read, &bytes));
    if (strlen(read) != bytes) {
        status = ebb__fail(set->ctx, failure, "%s: is not a text file: it holds a zero byte", path);
        goto out;
    }
    /* Values are borrowed from the text, so it lives as long as the settings. */
    TRY_OUT(ebb__region_strdup(set->region, read + ebb__utf8_mark(read, bytes), &text));
    while (text != NULL) {
        char *next = strchr(text, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        line.number++;
        TRY_OUT(load_line(&line, text));
        text = next;
    }
    status = EBB_OK;
out:
    ebb__free(set->ctx, read);
    return status;
}
