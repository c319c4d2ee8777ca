/* net_darknet.c - reads the layers of Darknet's .cfg files: sections in brackets, `key=value` a
 * line, `#` and `;` before comments. A section becomes up to three layers (3.conv, 3.bn, 3.relu),
 * of which others read the last; sections count from 0 behind [net]. What would be computed
 * otherwise than Darknet does is refused. */
#include "model/net_text.h"

#include "base/nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One list: enumerator behind KEY_, name. */
#define KEY_LIST(X)                                                                                \
    X(HEIGHT, "height")                                                                            \
    X(WIDTH, "width")                                                                              \
    X(CHANNELS, "channels")                                                                        \
    X(CROP_HEIGHT, "crop_height")                                                                  \
    X(CROP_WIDTH, "crop_width")                                                                    \
    X(FILTERS, "filters")                                                                          \
    X(SIZE, "size")                                                                                \
    X(STRIDE, "stride")                                                                            \
    X(PAD, "pad")                                                                                  \
    X(PADDING, "padding")                                                                          \
    X(GROUPS, "groups")                                                                            \
    X(BATCH_NORMALIZE, "batch_normalize")                                                          \
    X(ACTIVATION, "activation")                                                                    \
    X(OUTPUT, "output")                                                                            \
    X(FROM, "from")                                                                                \
    X(LAYERS, "layers")                                                                            \
    X(PROBABILITY, "probability")
typedef enum key_id {
#define KEY_ENUM(id, name) KEY_##id,
    KEY_LIST(KEY_ENUM)
#undef KEY_ENUM
        KEYS
} key_id;
static const char *const key_names[KEYS] = {
#define KEY_NAME(id, name) name,
    KEY_LIST(KEY_NAME)
#undef KEY_NAME
};

typedef struct darknet darknet;
typedef struct section_kind {
    const char *name, *other; /* both are used */
    ebb_status (*build)(darknet *d);
    uint32_t keys; /* those that mean something here */
    bool lenient;  /* others are about training: left alone */
} section_kind;

struct darknet {
    net_model *net;
    const section_kind *kind; /* of the open section; NULL: none yet */
    int32_t line;             /* of its name */
    const char *value[KEYS];  /* NULL: not given */
    int32_t *ends;            /* by section behind [net]: its last layer */
    int32_t n_ends;
    size_t cap_ends;
    int32_t now; /* the last layer of the open section so far */
    bool closed; /* softmax was there */
};

/* ---- values ---- */

static ebb_status whole(const darknet *d, key_id key, int32_t least, int32_t *out) {
    const char *text = d->value[key];
    size_t n = strspn(text, "0123456789");
    long value = n > 0 && n < 10 && text[n] == '\0' ? strtol(text, NULL, 10) : -1;
    if (value < least) {
        return ebb__net_wrong(d->net, "%s of [%s] is '%.60s', not a number from %" PRId32 " on",
                              key_names[key], d->kind->name, text, least);
    }
    *out = (int32_t)value;
    return EBB_OK;
}

/* Keys that Darknet has no sensible number for otherwise must be given. */
static ebb_status needed(const darknet *d, key_id key, int32_t *out) {
    return d->value[key] != NULL
               ? whole(d, key, 1, out)
               : ebb__net_wrong(d->net, "[%s] needs %s=", d->kind->name, key_names[key]);
}

static ebb_status usual(const darknet *d, key_id key, int32_t otherwise, int32_t *out) {
    *out = otherwise;
    return d->value[key] != NULL ? whole(d, key, 0, out) : EBB_OK;
}

/* ---- layers ---- */

static ebb_status add_from(darknet *d, net_op op, const net_numbers *n, const int32_t *from,
                           int32_t n_from) {
    char name[48];
    (void)snprintf(name, sizeof name, "%" PRId32 ".%s", d->n_ends, ebb__net_op_name(op));
    TRY(ebb__net_add(d->net, name, op, n, from, n_from));
    d->now = d->net->n_layers - 1;
    return EBB_OK;
}

static ebb_status add(darknet *d, net_op op, const net_numbers *n) {
    return add_from(d, op, n, &d->now, 1);
}

static ebb_status activate(darknet *d, const char *otherwise) {
    const char *name = d->value[KEY_ACTIVATION] != NULL ? d->value[KEY_ACTIVATION] : otherwise;
    bool leaky = strcmp(name, "leaky") == 0;
    if (strcmp(name, "linear") == 0) {
        return EBB_OK;
    }
    return leaky || strcmp(name, "relu") == 0
               ? add(d, NET_RELU, &(net_numbers){.slope = leaky ? 0.1 : 0})
               : ebb__net_wrong(
                     d->net, "activation '%.60s' of [%s] is not known: use relu, leaky or linear",
                     name, d->kind->name);
}

static ebb_status flatten(darknet *d) {
    return d->net->layers[d->now].out.flat ? EBB_OK : add(d, NET_FLATTEN, &(net_numbers){0});
}

static ebb_status build_net(darknet *d) {
    int32_t size[3] = {0};
    TRY(needed(d, KEY_CHANNELS, &size[0]));
    TRY(needed(d, KEY_HEIGHT, &size[1]));
    TRY(needed(d, KEY_WIDTH, &size[2]));
    return ebb__net_input(d->net, size[0], size[1], size[2]);
}

/* The image is cut when it is read, so the net begins with what is left. */
static ebb_status build_crop(darknet *d) {
    net_shape *image = &d->net->layers[0].out;
    int32_t high = 0, wide = 0;
    TRY(needed(d, KEY_CROP_HEIGHT, &high));
    TRY(needed(d, KEY_CROP_WIDTH, &wide));
    if (d->n_ends > 0 || high > image->high || wide > image->wide) {
        return ebb__net_wrong(d->net, "[crop] stands behind [net] and makes the image smaller");
    }
    image->high = high;
    image->wide = wide;
    return EBB_OK;
}

static ebb_status build_conv(darknet *d) {
    net_numbers n = {0};
    int32_t half = 0, norm = 0;
    TRY(needed(d, KEY_FILTERS, &n.outputs));
    TRY(usual(d, KEY_SIZE, 1, &n.high));
    TRY(usual(d, KEY_STRIDE, 1, &n.stride));
    TRY(usual(d, KEY_PADDING, 0, &n.pad_y));
    TRY(usual(d, KEY_PAD, 0, &half));
    TRY(usual(d, KEY_GROUPS, 1, &n.groups));
    TRY(usual(d, KEY_BATCH_NORMALIZE, 0, &norm));
    n.wide = n.high;
    n.pad_x = n.pad_y = half != 0 ? n.high / 2 : n.pad_y;
    n.no_bias = norm != 0;
    TRY(add(d, NET_CONV, &n));
    if (norm != 0) {
        net_numbers bn = ebb__net_usual(NET_BN);
        bn.momentum = 0.01;
        TRY(add(d, NET_BN, &bn));
    }
    return activate(d, "logistic");
}

/* Darknet pads `padding` in all, half of it (less the odd one) before. With ceil or without, ours
 * begin at the same places; there must be as many. */
static ebb_status build_maxpool(darknet *d) {
    const net_shape *in = &d->net->layers[d->now].out;
    net_numbers n = {0};
    int32_t all = 0;
    TRY(usual(d, KEY_STRIDE, 1, &n.stride));
    TRY(usual(d, KEY_SIZE, n.stride, &n.high));
    if (n.high < 1 || n.high > NET_MOST_WINDOW || n.stride < 1) {
        return ebb__net_wrong(d->net, "size and stride of [maxpool] are from 1 to %d",
                              NET_MOST_WINDOW);
    }
    TRY(usual(d, KEY_PADDING, n.high - 1, &all));
    n.wide = n.high;
    n.pad_y = n.pad_x = all / 2;
    for (int ceil = 0; ceil < 2 && all <= n.high; ceil++) {
        n.ceil = ceil != 0;
        int64_t high = ((int64_t)in->high + all - n.high) / n.stride + 1;
        int64_t wide = ((int64_t)in->wide + all - n.high) / n.stride + 1;
        if (ebb__net_windows(&n, in->high, n.high, n.pad_y) == high &&
            ebb__net_windows(&n, in->wide, n.wide, n.pad_x) == wide) {
            return add(d, NET_MAXPOOL, &n);
        }
    }
    return ebb__net_wrong(d->net,
                          "[maxpool] of size %" PRId32 ", stride %" PRId32 " and padding %" PRId32
                          " pads one side of a map of %" PRId32 "x%" PRId32
                          " more than the other, which is not known",
                          n.high, n.stride, all, in->high, in->wide);
}

static ebb_status build_avgpool(darknet *d) {
    return add(d, NET_GAP, &(net_numbers){0});
}

static ebb_status build_connected(darknet *d) {
    net_numbers n = {0};
    TRY(needed(d, KEY_OUTPUT, &n.outputs));
    TRY(flatten(d));
    TRY(add(d, NET_FC, &n));
    return activate(d, "logistic");
}

static ebb_status build_dropout(darknet *d) {
    const char *text = d->value[KEY_PROBABILITY];
    char *end = NULL;
    net_numbers n = {.rate = text != NULL ? strtod(text, &end) : 0};
    return text != NULL && end != text && *end == '\0'
               ? add(d, NET_DROPOUT, &n)
               : ebb__net_wrong(d->net, "[dropout] needs probability=, a number");
}

static ebb_status build_softmax(darknet *d) {
    int32_t groups = 1;
    TRY(usual(d, KEY_GROUPS, 1, &groups));
    if (groups != 1) {
        return ebb__net_wrong(d->net, "[softmax] of %" PRId32 " groups is not known", groups);
    }
    d->closed = true;
    return flatten(d);
}

static ebb_status build_cost(darknet *d) {
    return d->closed ? EBB_OK : ebb__net_wrong(d->net, "[cost] is known behind [softmax] only");
}

/* A list of sections, counted from the first, or back from this one if below 0. */
static ebb_status read_list(const darknet *d, key_id key, int32_t *from, int32_t *n) {
    const char *at = d->value[key];
    for (*n = 0; at != NULL && *n < NET_MOST_INPUTS; (*n)++) {
        char *end = NULL;
        long index = strtol(at, &end, 10);
        index = index < 0 ? d->n_ends + index : index;
        if (end == at || (*end != ',' && *end != '\0') || index < 0 || index >= d->n_ends) {
            return ebb__net_wrong(d->net,
                                  "%s of [%s] is '%.60s', not a list of earlier sections: this is "
                                  "number %" PRId32,
                                  key_names[key], d->kind->name, d->value[key], d->n_ends);
        }
        from[*n] = d->ends[index];
        at = *end == ',' ? end + 1 : NULL;
    }
    return *n > 0 && at == NULL ? EBB_OK
                                : ebb__net_wrong(d->net, "[%s] needs %s=, at most %d sections",
                                                 d->kind->name, key_names[key], NET_MOST_INPUTS);
}

static ebb_status build_shortcut(darknet *d) {
    int32_t from[NET_MOST_INPUTS + 1] = {0}, n = 0;
    from[0] = d->now;
    TRY(read_list(d, KEY_FROM, from + 1, &n));
    TRY(add_from(d, NET_ADD, &(net_numbers){0}, from, n + 1));
    return activate(d, "linear");
}

/* Of one section: only another place to go on from. */
static ebb_status build_route(darknet *d) {
    int32_t from[NET_MOST_INPUTS] = {0}, n = 0;
    TRY(read_list(d, KEY_LAYERS, from, &n));
    d->now = from[0];
    return n == 1 ? EBB_OK : add_from(d, NET_CONCAT, &(net_numbers){0}, from, n);
}

/* ---- sections ---- */

#define HAS(id) (1U << KEY_##id)
static const section_kind kinds[] = {
    {"net", "network", build_net, HAS(HEIGHT) | HAS(WIDTH) | HAS(CHANNELS), true},
    {"crop", "crop", build_crop, HAS(CROP_HEIGHT) | HAS(CROP_WIDTH), true},
    {"convolutional", "conv", build_conv,
     HAS(FILTERS) | HAS(SIZE) | HAS(STRIDE) | HAS(PAD) | HAS(PADDING) | HAS(GROUPS) |
         HAS(BATCH_NORMALIZE) | HAS(ACTIVATION),
     false},
    {"maxpool", "max", build_maxpool, HAS(SIZE) | HAS(STRIDE) | HAS(PADDING), false},
    {"avgpool", "avg", build_avgpool, 0, false},
    {"connected", "conn", build_connected, HAS(OUTPUT) | HAS(ACTIVATION), false},
    {"dropout", "dropout", build_dropout, HAS(PROBABILITY), false},
    {"shortcut", "shortcut", build_shortcut, HAS(FROM) | HAS(ACTIVATION), false},
    {"route", "route", build_route, HAS(LAYERS), false},
    {"softmax", "soft", build_softmax, HAS(GROUPS), false},
    {"cost", "cost", build_cost, 0, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *kind_at(const void *user, size_t index) {
    (void)user;
    return kinds[index].name;
}

static const char *key_at(const void *user, size_t index) {
    const section_kind *kind = user;
    return (kind->keys & (1U << index)) != 0 ? key_names[index] : NULL;
}

/* The layers of the section that ends here. */
static ebb_status close_section(darknet *d) {
    if (d->kind == NULL) {
        return EBB_OK;
    }
    bool first = d->kind == &kinds[0];
    d->net->place.line = d->line;
    if (first != (d->net->n_layers == 0)) {
        return ebb__net_wrong(d->net, "a file begins with [net], and has it once");
    }
    if (d->closed && d->kind->build != build_cost) {
        return ebb__net_wrong(d->net, "[%s] stands behind [softmax], which ends the net",
                              d->kind->name);
    }
    if (d->n_ends >= NET_MOST_LAYERS) {
        return ebb__net_wrong(d->net, "more than %d sections", NET_MOST_LAYERS);
    }
    d->now = d->n_ends > 0 ? d->ends[d->n_ends - 1] : 0;
    TRY(d->kind->build(d));
    if (!first) {
        TRY(ebb__region_grow(&d->net->region, &d->ends, &d->cap_ends, (size_t)d->n_ends + 1,
                             sizeof *d->ends));
        d->ends[d->n_ends++] = d->now;
    }
    return EBB_OK;
}

static ebb_status open_section(darknet *d, char *name, int32_t line) {
    size_t n = strlen(name);
    TRY(close_section(d));
    d->net->place.line = line;
    if (n < 2 || name[n - 1] != ']') {
        return ebb__net_wrong(d->net, "'%.60s' is no section: `[convolutional]` is one", name);
    }
    name[n - 1] = '\0';
    memset(d->value, 0, sizeof d->value);
    d->line = line;
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, name + 1) == 0 || strcmp(kinds[i].other, name + 1) == 0) {
            d->kind = &kinds[i];
            return EBB_OK;
        }
    }
    return ebb__net_wrong(d->net, "section '[%.60s]' is not known; did you mean '[%s]'?", name + 1,
                          ebb__nearest(name + 1, kind_at, NULL, KINDS));
}

static ebb_status set_key(darknet *d, char *text) {
    char *equals = strchr(text, '=');
    if (d->kind == NULL || equals == NULL) {
        return ebb__net_wrong(d->net, "'%.60s': a line is `[section]` or, in one, `key=value`",
                              text);
    }
    *equals = '\0';
    for (int key = 0; key < KEYS; key++) {
        if (strcmp(key_names[key], text) == 0 && (d->kind->keys & (1U << key)) != 0) {
            d->value[key] = equals + 1;
            return EBB_OK;
        }
    }
    const char *nearest = ebb__nearest(text, key_at, d->kind, KEYS);
    return d->kind->lenient ? EBB_OK
           : nearest == NULL
               ? ebb__net_wrong(d->net, "key '%.60s': [%s] has none", text, d->kind->name)
               : ebb__net_wrong(d->net, "key '%.60s' of [%s] is not known; did you mean '%s'?",
                                text, d->kind->name, nearest);
}

/* Blanks mean nothing, wherever they are. */
static void strip(char *line) {
    char *to = line;
    for (; *line != '\0' && *line != '#' && *line != ';'; line++) {
        if (strchr(" \t\r", *line) == NULL) {
            *to++ = *line;
        }
    }
    *to = '\0';
}

ebb_status ebb__net_parse_darknet(net_model *net, const char *path, const char *text) {
    darknet d = {.net = net};
    char *name = NULL, *line = NULL, *next = NULL;
    int32_t number = 0;
    TRY(ebb__region_strdup(&net->region, path, &name));
    net->place = (net_place){name, 1, EBB_DATA};
    text += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    TRY(ebb__region_strdup(&net->region, text, &line)); /* values stay in it until they are used */
    for (; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        net->place.line = ++number;
        strip(line);
        if (*line != '\0') {
            TRY(*line == '[' ? open_section(&d, line, number) : set_key(&d, line));
        }
    }
    TRY(close_section(&d));
    return ebb__net_finish(net);
}
