/* options.c - the settings of a convolutional net: options, what follows from them and from the
 * images, words for people. */
#include "kind/cnn/cnn.h"

#include "base/file.h"
#include "base/nearest.h"
#include "model/net_named.h"
#include "model/net_text.h"
#include "train/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const train_option options[] = {
    /* clang-format off */
    {"train", "Data", OPTION_TEXT, AT(train_path), "PATH", "none", "none", {0}, ANY, RUN, OPTION_SHOWN | OPTION_PATH,
     "labelled images to learn from: a file of images (IDX, CIFAR, .npy; also .gz), a folder that has such files under their usual names, or a folder with a folder of PNG and JPEG files for each class"},
    {"cnn", "Data", OPTION_TEXT, AT(train_path), "PATH", "none", "none", {0}, ANY, FOR_DATA_BUILD, 0,
     "labelled images, as --train of train cnn takes them"},
    {"valid", "Data", OPTION_TEXT, AT(valid_path), "PATH", "none", "none", {0}, ANY, RUN | FOR_DATA_BUILD, OPTION_SHOWN | OPTION_PATH,
     "images to validate on after every epoch; of a folder those for tests; none: some of --train are held back (--hold)"},
    {"hold", "Data", OPTION_REAL, OWN(cnn_settings, hold), "SHARE", "0.1", NULL, {0}, BETWEEN(0, 1), RUN | FOR_DATA_BUILD, MATH,
     "share of the images that are held back to validate on, where there is no --valid"},
    {"shift", "Data", OPTION_INT, OWN(cnn_settings, shift), "PIXELS", "0", NULL, {0}, RANGE(0, 64), RUN, MATH,
     "images to learn from are shifted by up to so many pixels, as a crop of the image with a border of its mean"},
    {"crop", "Data", OPTION_REAL, OWN(cnn_settings, crop), "LEAST", "1", NULL, {0}, ABOVE(0, 1), RUN, MATH,
     "of images to learn from, parts are seen that have a share of LEAST to 1 of the area and are 3/4 to 4/3 as wide as high, brought to the image's size; 1: the images as they are; not with --shift"},
    {"flip", "Data", OPTION_SWITCH, OWN(cnn_settings, flip), NULL, "false", NULL, {0}, ANY, RUN, MATH,
     "half of the images to learn from are turned left to right"},
    {"bad", "Data", OPTION_CHOICE, OWN(cnn_settings, bad), NULL, "stop", NULL, {"stop", "skip"}, ANY, RUN | FOR_EVAL | FOR_PREDICT | FOR_DATA_BUILD, OPTION_SHOWN,
     "what to do where a PNG or JPEG file cannot be decoded: say so and stop, or go on without it"},
    {"csv", "Data", OPTION_TEXT, OWN(cnn_settings, csv), "FILE", "none", "none", {0}, ANY, FOR_EVAL, 0,
     "write how often images of each class were said to be of which as a table of comma-separated values"},
    {"html", "Data", OPTION_TEXT, AT(page), "FILE", "none", "none", {0}, ANY, FOR_EVAL, 0,
     "write a page that shows what is taken for what, and the images whose wrong answers were the surest"},
    {"net", "Model", OPTION_TEXT, OWN(cnn_settings, net), "NAME|FILE", "lenet", NULL, {0}, ANY, MODEL | FOR_DATA_BUILD, MATH | OPTION_PATH,
     "alexnet, nin, overfeat, vgg16, googlenet, resnet50, resnet20_cifar and others, or a file with a layer a line: see docs/nets.md"},
    {"size", "Model", OPTION_INT, OWN(cnn_settings, size), "PIXELS", "auto", "auto", {0}, RANGE(1, 20000), MODEL | FOR_DATA_BUILD, MATH,
     "rows and columns of an image; auto: those of the images or, without any, the net's own"},
    {"channels", "Model", OPTION_INT, OWN(cnn_settings, channels), "N", "auto", "auto", {0}, RANGE(1, 4), MODEL | FOR_DATA_BUILD, MATH,
     "of an image; auto: those of the images or, without any, the net's own"},
    {"classes", "Model", OPTION_INT, OWN(cnn_settings, classes), "N", "auto", "auto", {0}, RANGE(2, 65536), MODEL | FOR_DATA_BUILD, MATH,
     "that images are told apart by; auto: as many as the images have or, without any, the net's own"},
    OPTION_INIT_OF("or of torchvision's net of the same name; if that tells another number of classes apart, the last layer starts anew (docs/nets.md)"),
    {"freeze", "Model", OPTION_TEXT, OWN(cnn_settings, freeze), "PATTERN", "none", "none", {0}, ANY, MODEL, MATH | OPTION_LIST,
     "parameters that are not trained, by their names, as 'layer1.*' or '*.bias'; * is any text and ? any character; may be given several times"},
    {"dropout", "Model", OPTION_REAL, OWN(cnn_settings, dropout), "P", "-1", NULL, {0}, BELOW(-1, 1), MODEL, MATH,
     "share of units dropped where the net has dropout layers; -1: as the net has it"},
    {"batch", "Batch", OPTION_INT, AT(batch), "N", "64", "auto", {0}, RANGE(1, 1e6), MODEL | FOR_EVAL, MATH,
     "images in a step; auto: as many as fit in --memory (plan, bench, train), at most 4096"},
    {"lanes", "Batch", OPTION_INT, OWN(cnn_settings, lanes), "N", "auto", "auto", {0}, RANGE(1, 1e6), MODEL, OPTION_SHOWN | OPTION_JOINT,
     "images that lie side by side in memory, which must divide those of a shard; auto: 8, 4, or all; changes no bit"},
    {"chunk", "Batch", OPTION_CHOICE, AT(chunks), NULL, "auto", NULL, {"auto", "none", "segment", "net"}, ANY, MODEL, OPTION_SHOWN,
     "whether a batch may be done for a few images at a time: between pools, or through the whole net; auto: as --memory asks for; changes no bit"},
    {"encode", "Batch", OPTION_CHOICE, AT(encode), NULL, "auto", NULL, {"auto", "gist"}, ANY, MODEL, OPTION_SHOWN | OPTION_JOINT,
     "how memory may be saved: auto: in every way there is; gist: what waits for the backward pass is encoded as published in 2018, decoded as a whole before it is read, and nothing else is done; changes no bit"},
    {"density", "Batch", OPTION_TEXT, OWN(cnn_settings, density), "D[,R]", "0.55", NULL, {0}, ANY, MODEL, OPTION_SHOWN | OPTION_JOINT,
     "memory for what relu layers give, as shares of its elements: D of them may be above 0 on average, R behind a residual sum, without R as such nets have it; where a step has more, it is done in another, slower way; none: zeros take memory too; changes no bit"},
    OPTION_SHARDS,
    OPTION_STASH,
    OPTIONS_OPTIMISER("sgd", "0.05", "learning rate; 0.01 with momentum, 0.001 where the optimiser is adam or adamw", "none"),
    OPTIONS_LENGTH,
    {"valid-metric", "Length", OPTION_CHOICE, AT(valid_metric), NULL, "top1", NULL, {"top1", "top5"}, ANY, RUN, MATH,
     "what decides which weights are the best: the share of images whose class is said first, or among the first five"},
    OPTIONS_RUN("ebb-cnn"),
    OPTIONS_RANKS,
    OPTIONS_END,
    /* clang-format on */
};
const option_list ebb__cnn_options = {options, sizeof options / sizeof *options};

const kind_command ebb__cnn_commands[CNN_COMMANDS] = {
    {FOR_TRAIN, 0, "train cnn --train PATH [options]", "train a convolutional net, or go on",
     "Trains a convolutional net to tell images apart, in no more memory than --memory\n"
     "says. Prints the plan first, then progress. The folder --out holds the weights\n"
     "(best.safetensors, last.safetensors), metrics.jsonl, the images and config. Run\n"
     "again after any interruption, the same command goes on where it stopped and\n"
     "ends with the same bits.\n"},
    {FOR_PLAN, 0, "plan cnn [options of train cnn]", "what training a net would take",
     "Plans the run that the same options of train cnn would make, without training.\n"
     "Needs no images.\n"},
    {FOR_BENCH, 0, "bench cnn [options]", "time training steps on random images",
     "Runs 2 steps to warm up and --steps timed ones on random images.\n"},
    {FOR_EVAL, 2, "eval cnn DIR PATH [options]", "how well a trained net tells images apart",
     "Shows labelled images to the best weights of the run in the folder DIR: loss,\n"
     "how often the right class is said first or among the first five, and what is\n"
     "taken for what. PATH is what --train of train cnn takes (of a folder with files\n"
     "for training and for tests, those for tests), or a set of images that a run has\n"
     "made, such as DIR/valid.images.\n"},
    {FOR_TUNE, 0, "tune cnn [options of bench cnn]", "measure this machine for a net",
     "Times every way to carry out the products of a net, and stores what it finds.\n"},
};

void ebb__cnn_describe(const train_settings *s, char *text, size_t bytes) {
    const cnn_settings *own = cnn_own(s);
    (void)snprintf(text, bytes, "%s, %" PRId64 " x %" PRId64 " x %" PRId64 ", batch %s, %s",
                   own->net, own->channels, own->size, own->size, ebb__settings_batch(s).text,
                   ebb__settings_optimizers[s->optimizer]);
}

/* ---- density ---- */

/* "0.5", or "0.5,0.65": shares, above 0 and at most 1. */
static bool read_density(const char *text, pass_density *out) {
    char *end = NULL;
    bool plain = strspn(text, "0123456789.,") == strlen(text) && text[0] != ',' && *text != '\0';
    if (strcmp(text, "none") == 0) {
        *out = (pass_density){0, 0};
        return true;
    }
    out->cut = plain ? strtod(text, &end) : 0;
    out->sum = 0;
    if (plain && *end == ',') {
        const char *second = end + 1;
        out->sum = strtod(second, &end);
        plain = end != second && out->sum > 0;
    }
    return plain && *end == '\0' && out->cut > 0 && out->cut <= 1 && out->sum <= 1;
}

static ebb_status settle_density(ebb_ctx *ctx, train_settings *s) {
    const char *text = cnn_own(s)->density;
    return read_density(text, &s->density)
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "--density %.100s: is not D or D,R, shares above 0 and at most 1, "
                           "such as 0.55,0.7; or none",
                           text);
}

/* ---- the net ---- */

const net_layer *ebb__cnn_head(const net_model *net) {
    int32_t i = net->n_layers - 1;
    while (i > 0 && ebb__net_weights(net, &net->layers[i]) == 0) {
        i--;
    }
    return &net->layers[i];
}

static const char *name_at(const void *user, size_t index) {
    (void)user;
    return ebb__net_name_at(index);
}

static ebb_status no_net(ebb_ctx *ctx, const char *name) {
    size_t n = 0;
    while (ebb__net_name_at(n) != NULL) {
        n++;
    }
    return ebb__fail(ctx, EBB_USAGE,
                     "--net %.200s: is no file, and no net of that name is known; did you mean %s? "
                     "(docs/nets.md lists them)",
                     name, ebb__nearest(name, name_at, NULL, n));
}

ebb_status ebb__cnn_net(const train_settings *s, net_model *net) {
    const cnn_settings *own = cnn_own(s);
    net_wish wish = {own->net, (int32_t)own->channels, (int32_t)own->size, (int32_t)own->classes};
    char copy[JOB_PATH_BYTES] = "";
    if (s->train_path != NULL && s->out_dir != NULL && !s->fresh) { /* a run may go on with it */
        TRY(ebb__job_path(net->ctx, s->out_dir, CNN_NET_COPY, copy));
    }
    if (ebb__net_is_named(own->net)) {
        TRY(ebb__net_named(net, &wish));
    } else if (ebb__file_exists(own->net) || (copy[0] != '\0' && ebb__file_exists(copy))) {
        TRY(ebb__net_load(net, ebb__file_exists(own->net) ? own->net : copy));
    } else {
        return no_net(net->ctx, own->net);
    }
    return ebb__net_finish(net);
}

/* A number that was not given is what is found; one that was must be it, if `found` is not 0. */
static ebb_status settle(ebb_ctx *ctx, const char *option, int64_t *given, int64_t found,
                         const char *whose) {
    if (*given != 0 && found != 0 && *given != found) {
        return ebb__fail(ctx, EBB_USAGE, "--%s %" PRId64 ": %s have %" PRId64 "; leave it out",
                         option, *given, whose, found);
    }
    *given = *given != 0 ? *given : found;
    return EBB_OK;
}

image_request ebb__cnn_images(const train_settings *s, image_part part) {
    return (image_request){
        .part = part, .want = cnn_image_size(s), .skip_bad = cnn_own(s)->bad == CNN_BAD_SKIP};
}

/* What the net takes, by its own sizes where none were given. */
static ebb_status net_input(ebb_ctx *ctx, const train_settings *s, net_shape *out) {
    net_model net;
    ebb__net_init(&net, ctx);
    ebb_status status = ebb__cnn_net(s, &net);
    *out = status == EBB_OK ? net.layers[0].out : (net_shape){0};
    ebb__net_fini(&net);
    return status;
}

/* What the images to learn from say of sizes that were not given; photographs have any. */
static ebb_status ask_images(ebb_ctx *ctx, const train_settings *s, cnn_settings *own) {
    image_files files;
    net_shape in;
    TRY(net_input(ctx, s, &in));
    image_request request = {.part = IMAGE_TRAIN,
                             .want = {(uint32_t)in.high, (uint32_t)in.wide, (uint32_t)in.channels}};
    ebb_status status = ebb__image_files_find(ctx, &s->train_path, 1, &request, &files);
    if (status == EBB_OK && files.size.height != files.size.width) {
        status =
            ebb__fail(ctx, EBB_DATA, "%s: images are %u x %u, and only square ones are trained on",
                      s->train_path, files.size.height, files.size.width);
    }
    if (status == EBB_OK) {
        status = settle(ctx, "size", &own->size, files.size.height, "the images");
    }
    if (status == EBB_OK) {
        status = settle(ctx, "channels", &own->channels, files.size.channels, "the images");
    }
    if (status == EBB_OK && own->classes == 0) {
        own->classes = files.classes;
        status = ebb__cnn_check_learnt(ctx, s->train_path, &files);
    }
    ebb__image_files_free(&files);
    return status;
}

/* Whether there can be such images and labels; a net's file may say anything. */
static ebb_status check_sizes(ebb_ctx *ctx, const char *name, const net_model *net) {
    const net_shape *in = &net->layers[0].out;
    if (in->high != in->wide) {
        return ebb__fail(ctx, EBB_USAGE,
                         "%s: its images are %d x %d, and only square ones are trained on", name,
                         in->high, in->wide);
    }
    if (in->high > IMAGE_MOST_SIDE || in->channels > IMAGE_MOST_CHANNELS) {
        return ebb__fail(ctx, EBB_DATA,
                         "%s: its images have %d pixels on a side and %d channel(s); at most %d "
                         "and %d are possible",
                         name, in->high, in->channels, IMAGE_MOST_SIDE, IMAGE_MOST_CHANNELS);
    }
    if (ebb__cnn_head(net) == &net->layers[0]) {
        return ebb__fail(ctx, EBB_DATA,
                         "%s: no layer has weights, so that there is nothing to learn; add a conv "
                         "or fc",
                         name);
    }
    return net_classes(net) >= 2 && net_classes(net) <= IMAGE_MOST_CLASSES
               ? EBB_OK
               : ebb__fail(ctx, EBB_DATA,
                           "%s: it ends with '%s', which tells %d class(es) apart; 2 to %d are "
                           "possible",
                           name, net->layers[net->n_layers - 1].name, net_classes(net),
                           IMAGE_MOST_CLASSES);
}

/* What the net says of those that are still open; one read from a file has them all. */
static ebb_status ask_net(ebb_ctx *ctx, const train_settings *s, cnn_settings *own) {
    net_model net;
    ebb__net_init(&net, ctx);
    ebb_status status = ebb__cnn_net(s, &net);
    if (status == EBB_OK) {
        status = check_sizes(ctx, own->net, &net);
    }
    if (status == EBB_OK) {
        status = settle(ctx, "size", &own->size, net.layers[0].out.high, "the net's images");
    }
    if (status == EBB_OK) {
        status =
            settle(ctx, "channels", &own->channels, net.layers[0].out.channels, "the net's images");
    }
    if (status == EBB_OK) {
        status = settle(ctx, "classes", &own->classes, net_classes(&net), "the net's answers");
    }
    ebb__net_fini(&net);
    return status;
}

/* How many trained parameters the patterns stand for; all: how many there are. */
static int32_t count_frozen(const net_model *net, const char *patterns, int32_t *all) {
    int32_t n = 0;
    *all = 0;
    for (int32_t i = 1; i < net->n_layers; i++) {
        net_param params[NET_MOST_PARAMS];
        int32_t n_params = ebb__net_params(net, &net->layers[i], params);
        for (int32_t k = 0; k < n_params; k++) {
            char name[NET_MOST_NAME + 32];
            (void)snprintf(name, sizeof name, "%s.%s", net->layers[i].name, params[k].suffix);
            *all += params[k].trained;
            n += params[k].trained && ebb__cnn_is_frozen(patterns, name);
        }
    }
    return n;
}

/* A pattern that stands for nothing was probably meant to. */
static ebb_status check_pattern(const net_model *net, const char *pattern, size_t length) {
    char alone[NET_MOST_NAME + 32];
    int32_t all = 0;
    (void)snprintf(alone, sizeof alone, "%.*s", (int)length, pattern);
    return length < sizeof alone && count_frozen(net, alone, &all) > 0
               ? EBB_OK
               : ebb__fail(net->ctx, EBB_USAGE,
                           "--freeze %.*s: the net has no parameter of such a name; its last is "
                           "%s.weight",
                           (int)(length < 200 ? length : 200), pattern, ebb__cnn_head(net)->name);
}

static ebb_status check_frozen(const train_settings *s, ebb_ctx *ctx) {
    const char *patterns = cnn_own(s)->freeze;
    net_model net;
    int32_t all = 0;
    ebb_status status;
    ebb__net_init(&net, ctx);
    TRY_OUT(ebb__cnn_net(s, &net));
    for (const char *at = patterns; at != NULL;) {
        size_t length = strcspn(at, ",");
        TRY_OUT(check_pattern(&net, at, length));
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    if (count_frozen(&net, patterns, &all) == all) {
        TRY_OUT(
            ebb__fail(ctx, EBB_USAGE, "--freeze %.200s: nothing is left to be trained", patterns));
    }
out:
    ebb__net_fini(&net);
    return status;
}

ebb_status ebb__cnn_resolve(ebb_ctx *ctx, train_settings *s) {
    cnn_settings *own = (void *)s->own;
    if (own->net == NULL) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--net needs the name of a net or a file; see docs/nets.md");
    }
    /* A net of a file has its sizes, and what the images must be follows from them. */
    if (s->train_path != NULL && ebb__net_is_named(own->net) &&
        (own->size == 0 || own->channels == 0 || own->classes == 0)) {
        TRY(ask_images(ctx, s, own));
    }
    TRY(ask_net(ctx, s, own));
    TRY(settle_density(ctx, s));
    if (own->freeze != NULL) {
        TRY(check_frozen(s, ctx));
    }
    if (own->shift > 0 && own->crop < 1) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--crop %g and --shift %" PRId64 ": parts of images are seen, or shifted "
                         "images; leave one out",
                         own->crop, own->shift);
    }
    int64_t images = s->batch / (s->shards > 1 ? s->shards : 1);
    if (own->lanes > 0 && images % own->lanes != 0) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--lanes %" PRId64 " does not divide the %" PRId64 " images of %s",
                         own->lanes, images, s->shards > 1 ? "a shard" : "--batch");
    }
    return EBB_OK;
}
