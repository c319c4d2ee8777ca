/* net.h - a convolutional net as a list of layers: what each is told, what it reads, the shape of
 * what it makes. No graph is built here, and no memory of maps or weights is taken.
 *
 * A layer reads earlier layers; layer 0 is the image. Shapes are those of one image, inferred when
 * a layer is added by PyTorch's formulas; what does not meet is refused there with a sentence that
 * names the layer. A map has channels, rows and columns; `flat` ones are rows of numbers, which
 * flatten makes in the order channel, row, column and which fc reads and makes.
 *
 * Parameters are called as PyTorch's modules call them: the layer's name, a point, and weight,
 * bias, running_mean or running_var.
 */
#ifndef MODEL_NET_H
#define MODEL_NET_H

#include "base/alloc.h"
#include "base/names.h"

/* One list: enumerator behind NET_, name in the text form. */
#define NET_OP_LIST(X)                                                                             \
    X(INPUT, "input") /* the image */                                                              \
    X(CONV, "conv")   /* weight [K, C/groups, R, S], bias [K] */                                   \
    X(BN, "bn")       /* by channel; weight, bias, running_mean, running_var [C] */                \
    X(RELU, "relu")   /* slope x where x is below 0 */                                             \
    X(MAXPOOL, "maxpool")                                                                          \
    X(AVGPOOL, "avgpool") /* padding counts as zeros, as PyTorch's does unless told otherwise */   \
    X(GAP, "gap")         /* the mean of each channel: a map of one pixel */                       \
    X(LRN, "lrn")         /* x (k + alpha/n sum of n channels' squares)^(-3/4) */                  \
    X(ADD, "add")                                                                                  \
    X(CONCAT, "concat") /* along channels */                                                       \
    X(FLATTEN, "flatten")                                                                          \
    X(FC, "fc") /* weight [K, C], bias [K] */                                                      \
    X(DROPOUT, "dropout")
typedef enum net_op {
#define NET_OP_ENUM(id, name) NET_##id,
    NET_OP_LIST(NET_OP_ENUM)
#undef NET_OP_ENUM
        NET_OPS
} net_op;

/* Bounds of what is read from files: a net of more layers is refused, so are maps and weights whose
 * sizes would not fit what counts them. */
enum { NET_MOST_LAYERS = 1 << 16, NET_MOST_NAME = 120, NET_MOST_SIZE = 1 << 24 };
enum { NET_MOST_WINDOW = 1024, NET_MOST_PARAMS = 4, NET_MOST_INPUTS = 1024 };
enum { NET_MOST_GAP = 4096 };                /* rows or columns, as the window of an op may have */
#define NET_MOST_ELEMENTS (INT64_C(1) << 31) /* of a map of one image */
#define NET_MOST_WEIGHTS (INT64_C(1) << 40)  /* of a layer */
#define NET_MOST_MADDS (INT64_C(1) << 46)    /* of a layer, for one image */

typedef struct net_shape {
    int32_t channels, high, wide; /* flat: so many numbers, 1, 1 */
    bool flat;
} net_shape;

/* What a layer is told. Fields that its op has not are 0 (ebb__net_fields). */
typedef struct net_numbers {
    int32_t outputs;      /* conv, fc: K */
    int32_t high, wide;   /* conv, pools: R rows and S columns of the window */
    int32_t stride;       /* conv, pools; given as 0 to a pool: its window, which is then square */
    int32_t pad_y, pad_x; /* conv, pools: rows above and below, columns left and right */
    int32_t groups;       /* conv */
    int32_t size;         /* lrn: channels in its window */
    bool no_bias;         /* conv, fc */
    bool ceil;            /* pools: a last window may begin in the map and end behind it */
    double eps, momentum; /* bn */
    double alpha, k;      /* lrn */
    double rate;          /* dropout: the probability of 0 */
    double slope;         /* relu; 0 but of leaky ones */
} net_numbers;

typedef struct net_layer {
    const char *name; /* first, for base/names; unique */
    net_op op;
    int32_t from, n_from; /* inputs: net->inputs[from ...], indices of earlier layers */
    int32_t line;         /* of the file it was read from; 0: of none */
    net_numbers n;
    net_shape out;
} net_layer;

/* Where sentences say that something is wrong, and with what status. */
typedef struct net_place {
    const char *path; /* "path:line: " stands before them; NULL: nothing does */
    int32_t line;
    ebb_status status;
} net_place;

typedef struct net_model {
    ebb_ctx *ctx;
    alloc_region region;
    net_layer *layers; /* [0] is the input */
    int32_t n_layers;
    int32_t *inputs;
    int32_t n_inputs;
    names_table names;
    net_place place; /* of what is added next */
    size_t cap_layers, cap_inputs;
} net_model;

/* An empty net; its first layer is to be made by ebb__net_input. ebb__net_fini is always right
 * after ebb__net_init, whatever failed between. */
void ebb__net_init(net_model *net, ebb_ctx *ctx);
void ebb__net_fini(net_model *net);
ebb_status ebb__net_input(net_model *net, int32_t channels, int32_t high,
                          int32_t wide) EBB_MUST_CHECK;

/* The numbers of an op that is told nothing: stride 1, one group, eps 1e-5, ... */
net_numbers ebb__net_usual(net_op op);
/* Adds a layer that reads the n_from layers of `from`; none: the one before. The name is copied:
 * 1 to NET_MOST_NAME letters, digits and "_.-", not yet used. */
ebb_status ebb__net_add(net_model *net, const char *name, net_op op, const net_numbers *numbers,
                        const int32_t *from, int32_t n_from) EBB_MUST_CHECK;
/* Whether the net is whole: it ends in a flat layer, which are the classes, and all others are
 * read. To be asked after the last layer. */
ebb_status ebb__net_finish(net_model *net) EBB_MUST_CHECK;

int32_t ebb__net_find(const net_model *net, const char *name); /* -1: there is none */
const char *ebb__net_op_name(net_op op);
bool ebb__net_name_fits(const char *name); /* as ebb__net_add wants it, used or not */
/* The sentence behind the place, with its status. */
ebb_status ebb__net_wrong(const net_model *net, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline int32_t net_classes(const net_model *net) {
    return net->layers[net->n_layers - 1].out.channels;
}
static inline int64_t net_elements(const net_shape *s) {
    return (int64_t)s->channels * s->high * s->wide;
}
/* Input i of a layer: the number of an earlier one. */
static inline int32_t net_in(const net_model *net, const net_layer *layer, int32_t i) {
    return net->inputs[layer->from + i];
}
static inline const net_shape *net_in_shape(const net_model *net, const net_layer *layer) {
    return &net->layers[net_in(net, layer, 0)].out;
}

/* A parameter, or running statistics: called <layer>.<suffix>. */
typedef struct net_param {
    const char *suffix;
    int32_t rank, dim[4];
    bool trained;
} net_param;
/* Those of a layer, in PyTorch's order; gives how many. */
int32_t ebb__net_params(const net_model *net, const net_layer *layer,
                        net_param out[NET_MOST_PARAMS]);
int64_t ebb__net_param_elements(const net_param *param);
/* Trained elements of a layer; multiply-adds of its convolution or product for one image. */
int64_t ebb__net_weights(const net_model *net, const net_layer *layer);
int64_t ebb__net_madds(const net_model *net, const net_layer *layer);

/* ---- what ops can be told, as the text form writes it ---- */

typedef enum net_field_kind { NET_INT, NET_PAIR, NET_REAL, NET_FLAG } net_field_kind;
typedef struct net_field {
    const char *name;
    net_field_kind kind;
    size_t offset;      /* in net_numbers; of a pair (rows, columns) the first */
    double least, most; /* of what may be given */
} net_field;

/* Field i of an op, in the order in which they are printed; NULL: no more. The first `plain` stand
 * without their names, the first `needed` must be given. */
typedef struct net_fields {
    int32_t plain, needed;
} net_fields;
net_fields ebb__net_fields(net_op op);
const net_field *ebb__net_field(net_op op, int32_t i);
/* What the field holds, of a pair the first or second. */
double ebb__net_value(const net_numbers *numbers, const net_field *field, int32_t second);

/* ---- between the files of the net ---- */

/* How many windows of `size` begin along an axis of `length`, padded at both ends. */
int32_t ebb__net_windows(const net_numbers *n, int32_t length, int32_t size, int32_t pad);
/* Shape of a layer whose inputs are there; appended behind the others, with a copy of its name. */
ebb_status ebb__net_infer(const net_model *net, net_layer *layer) EBB_MUST_CHECK;
ebb_status ebb__net_append(net_model *net, const net_layer *layer,
                           const int32_t *from) EBB_MUST_CHECK;

#endif
