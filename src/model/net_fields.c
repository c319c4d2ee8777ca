/* net_fields.c - what every op can be told: one table of fields, one of ops. The text form, the
 * bounds and the usual numbers all come from here. */
#include "model/net.h"

#include <string.h>

#define AT(member) offsetof(net_numbers, member)

typedef enum field_id {
    OUTPUTS,
    WINDOW,
    STRIDE,
    PAD,
    GROUPS,
    SIZE,
    NO_BIAS,
    CEIL,
    EPS,
    MOMENTUM,
    ALPHA,
    K,
    RATE,
    SLOPE,
    FIELDS
} field_id;

static const net_field fields[FIELDS] = {
    [OUTPUTS] = {"outputs", NET_INT, AT(outputs), 1, NET_MOST_SIZE},
    [WINDOW] = {"window", NET_PAIR, AT(high), 1, NET_MOST_WINDOW},
    [STRIDE] = {"stride", NET_INT, AT(stride), 1, NET_MOST_WINDOW},
    [PAD] = {"pad", NET_PAIR, AT(pad_y), 0, NET_MOST_WINDOW},
    [GROUPS] = {"groups", NET_INT, AT(groups), 1, NET_MOST_SIZE},
    [SIZE] = {"size", NET_INT, AT(size), 1, NET_MOST_WINDOW},
    [NO_BIAS] = {"nobias", NET_FLAG, AT(no_bias), 0, 1},
    [CEIL] = {"ceil", NET_FLAG, AT(ceil), 0, 1},
    [EPS] = {"eps", NET_REAL, AT(eps), 1e-12, 1},
    [MOMENTUM] = {"momentum", NET_REAL, AT(momentum), 0, 1},
    [ALPHA] = {"alpha", NET_REAL, AT(alpha), 0, 1e6},
    [K] = {"k", NET_REAL, AT(k), 1e-6, 1e6},
    [RATE] = {"rate", NET_REAL, AT(rate), 0, 0.99},
    [SLOPE] = {"slope", NET_REAL, AT(slope), 0, 1},
};
_Static_assert(AT(wide) == AT(high) + sizeof(int32_t), "a pair is rows, then columns");
_Static_assert(AT(pad_x) == AT(pad_y) + sizeof(int32_t), "a pair is rows, then columns");

enum { MOST_FIELDS = 6 };
typedef struct op_row {
    net_fields count;
    int32_t n;
    uint8_t fields[MOST_FIELDS]; /* field_id */
    net_numbers usual;
} op_row;

static const op_row rows[NET_OPS] = {
    [NET_CONV] = {{2, 2},
                  6,
                  {OUTPUTS, WINDOW, STRIDE, PAD, GROUPS, NO_BIAS},
                  {.stride = 1, .groups = 1}},
    [NET_BN] = {{0, 0}, 2, {EPS, MOMENTUM}, {.eps = 1e-5, .momentum = 0.1}},
    [NET_RELU] = {{0, 0}, 1, {SLOPE}, {0}},
    [NET_MAXPOOL] = {{2, 1}, 4, {WINDOW, STRIDE, PAD, CEIL}, {0}},
    [NET_AVGPOOL] = {{2, 1}, 4, {WINDOW, STRIDE, PAD, CEIL}, {0}},
    [NET_LRN] = {{1, 0}, 3, {SIZE, ALPHA, K}, {.size = 5, .alpha = 1e-4, .k = 1}},
    [NET_FC] = {{1, 1}, 2, {OUTPUTS, NO_BIAS}, {0}},
    [NET_DROPOUT] = {{1, 0}, 1, {RATE}, {.rate = 0.5}},
};

net_fields ebb__net_fields(net_op op) {
    return rows[op].count;
}

const net_field *ebb__net_field(net_op op, int32_t i) {
    return i < rows[op].n ? &fields[rows[op].fields[i]] : NULL;
}

net_numbers ebb__net_usual(net_op op) {
    return rows[op].usual;
}

double ebb__net_value(const net_numbers *numbers, const net_field *field, int32_t second) {
    const char *at = (const char *)numbers + field->offset;
    int32_t whole[2] = {0, 0};
    double real;
    bool flag;
    switch (field->kind) {
    case NET_INT:
        memcpy(whole, at, sizeof whole[0]);
        return whole[0];
    case NET_PAIR:
        memcpy(whole, at, sizeof whole);
        return whole[second];
    case NET_FLAG:
        memcpy(&flag, at, sizeof flag);
        return flag;
    case NET_REAL:
        break;
    }
    memcpy(&real, at, sizeof real);
    return real;
}

const char *ebb__net_op_name(net_op op) {
    static const char *const names[NET_OPS] = {
#define NET_OP_NAME(id, name) [NET_##id] = name,
        NET_OP_LIST(NET_OP_NAME)
#undef NET_OP_NAME
    };
    return names[op];
}
