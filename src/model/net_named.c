/* net_named.c - the list of named nets with their usual sizes, and those that are one sequence:
 * `features` of convolutions and pools, `classifier` of fully connected layers, numbered as
 * torchvision numbers them. */
#include "model/net_named.h"

#include "base/nearest.h"
#include "model/net_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sequences ---- */

typedef struct number_text {
    char text[16];
} number_text;

/* The next layer of the sequence reads the one before. */
static number_text number(net_build *b) {
    number_text out;
    (void)snprintf(out.text, sizeof out.text, "%" PRId32, b->next++);
    return out;
}

static int32_t before(const net_build *b) {
    return b->net->n_layers - 1;
}

static void begin(net_build *b, const char *in) {
    b->in = in;
    b->next = 0;
}

static void conv_relu(net_build *b, net_conv conv, bool bn) {
    (void)ebb__build_conv(b, number(b).text, before(b), conv);
    if (bn) {
        (void)ebb__build_bn(b, number(b).text, before(b));
    }
    (void)ebb__build_plain(b, number(b).text, before(b), NET_RELU);
}

static void pool(net_build *b, int32_t size, int32_t stride, bool ceil) {
    net_numbers n = {.high = size, .wide = size, .stride = stride, .ceil = ceil};
    (void)ebb__build_pool(b, number(b).text, before(b), NET_MAXPOOL, n);
}

static void lrn(net_build *b, double k) {
    (void)ebb__build_lrn(b, number(b).text, before(b), k);
}

static void drop(net_build *b) {
    (void)ebb__build_dropout(b, number(b).text, before(b), 0.5);
}

static void fc(net_build *b, int32_t outputs, bool relu) {
    (void)ebb__build_fc(b, number(b).text, before(b), outputs);
    if (relu) {
        (void)ebb__build_plain(b, number(b).text, before(b), NET_RELU);
    }
}

static void flatten(net_build *b) {
    b->in = NULL;
    (void)ebb__build_plain(b, "flatten", before(b), NET_FLATTEN);
    begin(b, "classifier.");
}

/* Two hidden layers, each followed by dropout, and the classes. */
static void classify(net_build *b, int32_t first, int32_t second) {
    flatten(b);
    fc(b, first, true);
    drop(b);
    fc(b, second, true);
    drop(b);
    fc(b, b->classes, false);
}

/* ---- nets ---- */

static void build_alexnet(net_build *b, int32_t unused) {
    net_conv two = net_square(256, 5, 1, 2), four = net_square(384, 3, 1, 1),
             five = net_square(256, 3, 1, 1);
    (void)unused;
    two.groups = four.groups = five.groups = 2;
    begin(b, "features.");
    conv_relu(b, net_square(96, 11, 4, 2), false);
    lrn(b, 2);
    pool(b, 3, 2, false);
    conv_relu(b, two, false);
    lrn(b, 2);
    pool(b, 3, 2, false);
    conv_relu(b, net_square(384, 3, 1, 1), false);
    conv_relu(b, four, false);
    conv_relu(b, five, false);
    pool(b, 3, 2, false);
    classify(b, 4096, 4096);
}

static void build_alexnet_tv(net_build *b, int32_t unused) {
    (void)unused;
    begin(b, "features.");
    conv_relu(b, net_square(64, 11, 4, 2), false);
    pool(b, 3, 2, false);
    conv_relu(b, net_square(192, 5, 1, 2), false);
    pool(b, 3, 2, false);
    conv_relu(b, net_square(384, 3, 1, 1), false);
    conv_relu(b, net_square(256, 3, 1, 1), false);
    conv_relu(b, net_square(256, 3, 1, 1), false);
    pool(b, 3, 2, false);
    flatten(b);
    drop(b);
    fc(b, 4096, true);
    drop(b);
    fc(b, 4096, true);
    fc(b, b->classes, false);
}

static void build_nin(net_build *b, int32_t unused) {
    const net_conv first[4] = {net_square(96, 11, 4, 0), net_square(256, 5, 1, 2),
                               net_square(384, 3, 1, 1), net_square(1024, 3, 1, 1)};
    (void)unused;
    begin(b, "features.");
    for (int i = 0; i < 4; i++) {
        conv_relu(b, first[i], false);
        conv_relu(b, net_square(first[i].outputs, 1, 1, 0), false);
        conv_relu(b, net_square(i < 3 ? first[i].outputs : b->classes, 1, 1, 0), false);
        if (i < 3) {
            pool(b, 3, 2, true);
        }
        if (i == 2) {
            drop(b);
        }
    }
    b->in = NULL;
    int32_t mean = ebb__build_plain(b, "avgpool", before(b), NET_GAP);
    (void)ebb__build_plain(b, "flatten", mean, NET_FLATTEN);
}

static void build_overfeat(net_build *b, int32_t unused) {
    (void)unused;
    begin(b, "features.");
    conv_relu(b, net_square(96, 11, 4, 0), false);
    pool(b, 2, 2, false);
    conv_relu(b, net_square(256, 5, 1, 0), false);
    pool(b, 2, 2, false);
    conv_relu(b, net_square(512, 3, 1, 1), false);
    conv_relu(b, net_square(1024, 3, 1, 1), false);
    conv_relu(b, net_square(1024, 3, 1, 1), false);
    pool(b, 2, 2, false);
    classify(b, 3072, 4096);
}

static void build_vgg16(net_build *b, int32_t with_bn) {
    static const int32_t widths[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                     0,  512, 512, 512, 0,   512, 512, 512, 0}; /* 0: a pool */
    int32_t hidden = b->size < 64 ? 512 : 4096;
    begin(b, "features.");
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (widths[i] > 0) {
            conv_relu(b, net_square(widths[i], 3, 1, 1), with_bn != 0);
        } else {
            pool(b, 2, 2, false);
        }
    }
    classify(b, hidden, hidden);
}

/* LeNet-5 with relu and max pooling; padded, since its images were 32 px once. */
static void build_lenet(net_build *b, int32_t unused) {
    (void)unused;
    begin(b, "features.");
    conv_relu(b, net_square(6, 5, 1, 2), false);
    pool(b, 2, 2, false);
    conv_relu(b, net_square(16, 5, 1, 0), false);
    pool(b, 2, 2, false);
    flatten(b);
    fc(b, 120, true);
    fc(b, 84, true);
    fc(b, b->classes, false);
}

/* ---- names ---- */

typedef struct named {
    const char *name;
    void (*build)(net_build *b, int32_t number);
    int32_t number; /* 0 of resnetN_cifar: what its name says */
    int32_t channels, size, classes;
} named;

static const char cifar[] = "resnetN_cifar";
static const named list[] = {
    {"lenet", build_lenet, 0, 1, 28, 10},
    {"alexnet", build_alexnet, 0, 3, 224, 1000},
    {"alexnet_tv", build_alexnet_tv, 0, 3, 224, 1000},
    {"nin", build_nin, 0, 3, 224, 1000},
    {"overfeat", build_overfeat, 0, 3, 231, 1000},
    {"vgg16", build_vgg16, 0, 3, 224, 1000},
    {"vgg16_bn", build_vgg16, 1, 3, 224, 1000},
    {"googlenet", ebb__build_googlenet, 0, 3, 224, 1000},
    {"googlenet_bn", ebb__build_googlenet, 1, 3, 224, 1000},
    {"inception_v3", ebb__build_inception_v3, 0, 3, 299, 1000},
    {"resnet18", ebb__build_resnet, 18, 3, 224, 1000},
    {"resnet34", ebb__build_resnet, 34, 3, 224, 1000},
    {"resnet50", ebb__build_resnet, 50, 3, 224, 1000},
    {"resnet101", ebb__build_resnet, 101, 3, 224, 1000},
    {"resnet152", ebb__build_resnet, 152, 3, 224, 1000},
    {cifar, ebb__build_resnet_cifar, 0, 3, 32, 10},
};
enum { NAMES = sizeof list / sizeof *list };

const char *ebb__net_name_at(size_t index) {
    return index < NAMES ? list[index].name : NULL;
}

static const char *nth_name(const void *user, size_t index) {
    (void)user;
    return list[index].name;
}

/* Whether it is "resnet", digits and "_cifar"; *depth is -1 if no int32 holds them. */
static bool is_cifar(const char *name, int32_t *depth) {
    const char *digits = name + strlen("resnet");
    if (strncmp(name, "resnet", strlen("resnet")) != 0) {
        return false;
    }
    size_t n = strspn(digits, "0123456789");
    long value = n > 0 && n < 9 ? strtol(digits, NULL, 10) : -1;
    *depth = (int32_t)value;
    return n > 0 && strcmp(digits + n, "_cifar") == 0;
}

static const named *find(const char *name, int32_t *number) {
    int32_t depth = 0;
    const char *wanted = is_cifar(name, &depth) ? cifar : name;
    for (size_t i = 0; i < NAMES; i++) {
        if (strcmp(list[i].name, wanted) == 0) {
            *number = wanted == cifar ? depth : list[i].number;
            return &list[i];
        }
    }
    return NULL;
}

bool ebb__net_is_named(const char *name) {
    int32_t number = 0;
    return find(name, &number) != NULL;
}

static ebb_status check_depth(const net_model *net, const char *name, const named *entry,
                              int32_t depth) {
    return entry->name != cifar || (depth >= 8 && depth % 6 == 2)
               ? EBB_OK
               : ebb__net_wrong(net, "no net '%.60s': N of resnetN_cifar is 6n + 2: 20, 32, 110",
                                name);
}

static ebb_status check_size(const net_model *net, const char *what, int32_t value, int32_t most) {
    return value >= 1 && value <= most
               ? EBB_OK
               : ebb__net_wrong(net, "%s %" PRId32 " is not in 1..%" PRId32, what, value, most);
}

ebb_status ebb__net_named(net_model *net, const net_wish *wish) {
    int32_t number = 0;
    const named *entry = find(wish->name, &number);
    if (entry == NULL) {
        return ebb__net_wrong(net, "no net '%.60s'; did you mean '%s'?", wish->name,
                              ebb__nearest(wish->name, nth_name, NULL, NAMES));
    }
    TRY(check_depth(net, wish->name, entry, number));
    int32_t channels = wish->channels != 0 ? wish->channels : entry->channels;
    net_build b = {.net = net,
                   .status = EBB_OK,
                   .classes = wish->classes != 0 ? wish->classes : entry->classes,
                   .size = wish->size != 0 ? wish->size : entry->size,
                   .eps = ebb__net_usual(NET_BN).eps};
    TRY(check_size(net, "channels", channels, NET_MOST_SIZE));
    TRY(check_size(net, "size", b.size, NET_MOST_SIZE));
    TRY(check_size(net, "classes", b.classes, NET_MOST_SIZE));
    TRY(ebb__net_input(net, channels, b.size, b.size));
    entry->build(&b, number);
    TRY(b.status);
    return ebb__net_finish(net);
}
