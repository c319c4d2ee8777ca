/* net_build.h - how the named nets are written: calls that add a layer and give its number. After a
 * failure they do nothing more; build->status says what the first one was. */
#ifndef MODEL_NET_BUILD_H
#define MODEL_NET_BUILD_H

#include "model/net.h"

typedef struct net_build {
    net_model *net;
    ebb_status status;
    int32_t classes;
    int32_t size;   /* of the image */
    const char *in; /* what stands before names, with a point; NULL: nothing */
    int32_t next;   /* number of the next layer of a sequence */
    double eps;     /* of batch norms */
} net_build;

/* A convolution of `outputs` by high x wide, padded by half of them unless `pad` says otherwise. */
typedef struct net_conv {
    int32_t outputs, high, wide, stride;
    int32_t pad; /* NET_HALF: (high - 1) / 2 rows, (wide - 1) / 2 columns */
    int32_t groups;
    bool no_bias;
} net_conv;
enum { NET_HALF = -1 };
static inline net_conv net_square(int32_t outputs, int32_t size, int32_t stride, int32_t pad) {
    return (net_conv){outputs, size, size, stride, pad, 1, false};
}

/* A layer called <in><name> that reads `from`. */
int32_t ebb__build_conv(net_build *b, const char *name, int32_t from, net_conv conv);
int32_t ebb__build_bn(net_build *b, const char *name, int32_t from);
int32_t ebb__build_pool(net_build *b, const char *name, int32_t from, net_op op, net_numbers pool);
int32_t ebb__build_plain(net_build *b, const char *name, int32_t from, net_op op);
int32_t ebb__build_join(net_build *b, const char *name, net_op op, const int32_t *from, int32_t n);
int32_t ebb__build_lrn(net_build *b, const char *name, int32_t from, double k);
int32_t ebb__build_fc(net_build *b, const char *name, int32_t from, int32_t outputs);
int32_t ebb__build_dropout(net_build *b, const char *name, int32_t from, double rate);
/* The mean of all pixels, dropout unless the rate is 0, "fc" for the classes. */
void ebb__build_head(net_build *b, int32_t from, double rate);

/* The nets; the image is layer 0. */
void ebb__build_resnet(net_build *b, int32_t depth);
void ebb__build_resnet_cifar(net_build *b, int32_t depth);
void ebb__build_googlenet(net_build *b, int32_t with_bn);
void ebb__build_inception_v3(net_build *b, int32_t unused);

#endif
