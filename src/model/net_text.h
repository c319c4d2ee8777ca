/* net_text.h - nets as text, one layer a line (docs/nets.md has the rules and an example):
 *
 *   input 3 32 32
 *   conv 16 3 pad 1 nobias      # name, op, numbers, what it reads; all but the op may be left out
 *   stage1: repeat 3 {          # layers are called stage1.0.first, stage1.0.bn1, ...
 *     first: conv 16 3 pad 1 nobias; bn; relu
 *     add from=in               # and the layer before; `in` is what came into this turn
 *   }
 */
#ifndef MODEL_NET_TEXT_H
#define MODEL_NET_TEXT_H

#include "model/net.h"

/* All make the net of a text; `net` is empty. What is wrong is EBB_DATA and begins with
 * "path:line: ". The path is copied. */
ebb_status ebb__net_parse(net_model *net, const char *path, const char *text) EBB_MUST_CHECK;
/* Darknet's .cfg, of which layers for classification are known. */
ebb_status ebb__net_parse_darknet(net_model *net, const char *path,
                                  const char *text) EBB_MUST_CHECK;
/* A file of either: Darknet's begin with a section in brackets. */
ebb_status ebb__net_load(net_model *net, const char *path) EBB_MUST_CHECK;
/* A string in the net's region, every layer with its name, that is parsed to the same net. */
ebb_status ebb__net_print(net_model *net, const char **out) EBB_MUST_CHECK;

#endif
