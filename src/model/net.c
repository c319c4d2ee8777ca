/* net.c - the list of layers: adding one, names, what is wrong with the whole, parameters. Shapes
 * are in net_shape.c, what ops can be told in net_fields.c. */
#include "model/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void ebb__net_init(net_model *net, ebb_ctx *ctx) {
    *net = (net_model){.ctx = ctx, .place = {NULL, 0, EBB_USAGE}};
    ebb__region_init(&net->region, ctx);
}

void ebb__net_fini(net_model *net) {
    ebb__names_free(net->ctx, &net->names);
    ebb__region_fini(&net->region);
}

ebb_status ebb__net_wrong(const net_model *net, const char *format, ...) {
    const net_place *place = &net->place;
    char sentence[512], line[24] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (place->path != NULL) {
        (void)snprintf(line, sizeof line, ":%" PRId32 ": ", place->line);
    }
    return ebb__fail(net->ctx, place->status, "%s%s%s", place->path != NULL ? place->path : "",
                     line, sentence);
}

bool ebb__net_name_fits(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_.-";
    size_t n = strspn(name, letters);
    return n > 0 && n <= NET_MOST_NAME && name[n] == '\0';
}

int32_t ebb__net_find(const net_model *net, const char *name) {
    return ebb__names_find(&net->names, net->layers, sizeof *net->layers, name);
}

/* ---- adding ---- */

ebb_status ebb__net_append(net_model *net, const net_layer *layer, const int32_t *from) {
    char *name = NULL;
    size_t n_from = (size_t)layer->n_from;
    TRY(ebb__region_grow(&net->region, &net->layers, &net->cap_layers, (size_t)net->n_layers + 1,
                         sizeof *net->layers));
    TRY(ebb__region_grow(&net->region, &net->inputs, &net->cap_inputs,
                         (size_t)net->n_inputs + n_from, sizeof *net->inputs));
    TRY(ebb__region_strdup(&net->region, layer->name, &name));
    net_layer *to = &net->layers[net->n_layers];
    *to = *layer;
    to->name = name;
    to->from = net->n_inputs;
    to->line = net->place.line;
    for (size_t i = 0; i < n_from; i++) {
        net->inputs[to->from + (int32_t)i] = from[i];
    }
    if (layer->op != NET_INPUT) {
        TRY(ebb__net_infer(net, to));
    }
    TRY(ebb__names_add(net->ctx, &net->names, net->layers, sizeof *net->layers));
    net->n_inputs += layer->n_from;
    net->n_layers++;
    return EBB_OK;
}

static ebb_status check_name(const net_model *net, const char *name) {
    bool taken = strcmp(name, "in") == 0 || strcmp(name, "from") == 0; /* words of the text form */
    if (taken || !ebb__net_name_fits(name)) {
        return ebb__net_wrong(net,
                              "'%.60s' is no name of a layer: those are 1 to %d letters, digits "
                              "and _.-, but not `in` or `from`",
                              name, NET_MOST_NAME);
    }
    int32_t other = ebb__net_find(net, name);
    if (other < 0) {
        return EBB_OK;
    }
    int32_t line = net->layers[other].line;
    return line == 0 ? ebb__net_wrong(net, "layer '%s': the name is used already", name)
                     : ebb__net_wrong(net, "layer '%s': line %" PRId32 " has that name already",
                                      name, line);
}

static ebb_status check_numbers(const net_model *net, const net_layer *layer) {
    const net_field *field;
    for (int32_t i = 0; (field = ebb__net_field(layer->op, i)) != NULL; i++) {
        for (int32_t second = 0; second < 1 + (field->kind == NET_PAIR); second++) {
            double value = ebb__net_value(&layer->n, field, second);
            if (!(value >= field->least && value <= field->most)) {
                return ebb__net_wrong(net, "layer '%s': %s %.9g is not in %.9g..%.9g", layer->name,
                                      field->name, value, field->least, field->most);
            }
        }
    }
    return EBB_OK;
}

ebb_status ebb__net_add(net_model *net, const char *name, net_op op, const net_numbers *numbers,
                        const int32_t *from, int32_t n_from) {
    net_layer layer = {.name = name, .op = op, .n_from = n_from, .n = *numbers};
    int32_t last = net->n_layers - 1;
    if (last < 0 || net->n_layers >= NET_MOST_LAYERS) {
        return last < 0 ? ebb__net_wrong(net, "the net has no input yet")
                        : ebb__net_wrong(net, "more than %d layers", NET_MOST_LAYERS - 1);
    }
    TRY(check_name(net, name));
    if ((op == NET_MAXPOOL || op == NET_AVGPOOL) && layer.n.stride == 0) {
        if (layer.n.high != layer.n.wide) {
            return ebb__net_wrong(net, "layer '%s': its window is not square: give a stride", name);
        }
        layer.n.stride = layer.n.high;
    }
    TRY(check_numbers(net, &layer));
    if (n_from == 0) {
        from = &last;
        layer.n_from = 1;
    }
    return ebb__net_append(net, &layer, from);
}

/* ---- the whole ---- */

static ebb_status all_are_read(net_model *net) {
    bool *read = NULL;
    int32_t i = 0, last = net->n_layers - 1;
    TRY(ebb__alloc(net->ctx, (size_t)net->n_layers, sizeof *read, &read));
    for (int32_t k = 0; k < net->n_inputs; k++) {
        read[net->inputs[k]] = true;
    }
    while (i < last && read[i]) {
        i++;
    }
    ebb__free(net->ctx, read);
    net->place.line = net->layers[i].line;
    return i == last ? EBB_OK
                     : ebb__net_wrong(net, "no layer reads '%s'; the net ends with '%s'",
                                      net->layers[i].name, net->layers[last].name);
}

ebb_status ebb__net_finish(net_model *net) {
    if (net->n_layers < 2) {
        return ebb__net_wrong(net, "the net has no layers");
    }
    const net_layer *last = &net->layers[net->n_layers - 1];
    if (!last->out.flat) {
        return ebb__net_wrong(net,
                              "the net ends with a map of %" PRId32 "x%" PRId32 "x%" PRId32
                              " ('%s'); end it with fc, or with gap and flatten: a number a class",
                              last->out.channels, last->out.high, last->out.wide, last->name);
    }
    return all_are_read(net);
}

/* ---- parameters ---- */

static net_param vector(const char *suffix, int32_t n, bool trained) {
    return (net_param){suffix, 1, {n, 0, 0, 0}, trained};
}

int32_t ebb__net_params(const net_model *net, const net_layer *layer,
                        net_param out[NET_MOST_PARAMS]) {
    const net_numbers *n = &layer->n;
    switch (layer->op) {
    case NET_CONV:
    case NET_FC: {
        int32_t channels = net_in_shape(net, layer)->channels;
        out[0] = layer->op == NET_FC
                     ? (net_param){"weight", 2, {n->outputs, channels, 0, 0}, true}
                     : (net_param){
                           "weight", 4, {n->outputs, channels / n->groups, n->high, n->wide}, true};
        out[1] = vector("bias", n->outputs, true);
        return 2 - n->no_bias;
    }
    case NET_BN:
        out[0] = vector("weight", layer->out.channels, true);
        out[1] = vector("bias", layer->out.channels, true);
        out[2] = vector("running_mean", layer->out.channels, false);
        out[3] = vector("running_var", layer->out.channels, false);
        return 4;
    default:
        return 0;
    }
}

int64_t ebb__net_param_elements(const net_param *param) {
    int64_t count = 1;
    for (int32_t i = 0; i < param->rank; i++) {
        count *= param->dim[i];
    }
    return count;
}

int64_t ebb__net_weights(const net_model *net, const net_layer *layer) {
    net_param params[NET_MOST_PARAMS];
    int64_t count = 0;
    for (int32_t i = 0, n = ebb__net_params(net, layer, params); i < n; i++) {
        count += params[i].trained ? ebb__net_param_elements(&params[i]) : 0;
    }
    return count;
}

int64_t ebb__net_madds(const net_model *net, const net_layer *layer) {
    net_param params[NET_MOST_PARAMS];
    bool product = layer->op == NET_CONV || layer->op == NET_FC;
    return product && ebb__net_params(net, layer, params) > 0
               ? ebb__net_param_elements(&params[0]) * layer->out.high * layer->out.wide
               : 0;
}
