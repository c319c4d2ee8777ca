/* net_named.h - nets that are known by name, as their papers or torchvision have them, without
 * auxiliary heads. Parameters are called as torchvision calls them. */
#ifndef MODEL_NET_NAMED_H
#define MODEL_NET_NAMED_H

#include "model/net.h"

typedef struct net_wish {
    const char *name;
    int32_t channels, size, classes; /* 0: the net's own; images are square */
} net_wish;

/* Makes the net; `net` is empty (ebb__net_init). An unknown name, or sizes that do not fit the net,
 * are refused with net->place's status. */
ebb_status ebb__net_named(net_model *net, const net_wish *wish) EBB_MUST_CHECK;
bool ebb__net_is_named(const char *name); /* else it is a file's name */
/* Names to show, "resnetN_cifar" (any N = 6n + 2) among them; NULL: no more. */
const char *ebb__net_name_at(size_t index);

#endif
