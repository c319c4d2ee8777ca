/* inspect.c - `ebb inspect FILE|NET`: what a safetensors file holds; a net as a file says it. */
#include "cli/command.h"

#include "model/net_named.h"
#include "model/net_text.h"
#include "store/safetensors.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_LEAST = 4, NAME_MOST = 48 };

/* The format itself says that the data ends where the last tensor does. */
static uint64_t total_bytes(const st_reader *reader) {
    uint64_t total = 0;
    for (size_t i = 0; i < reader->n_tensors; i++) {
        total += reader->tensors[i].end - reader->tensors[i].begin;
    }
    return total;
}

static void print_tensors(const st_reader *reader) {
    int width = NAME_LEAST;
    for (size_t i = 0; i < reader->n_tensors; i++) {
        int n = (int)strnlen(ebb__safetensors_show(reader->tensors[i].name).text, NAME_MOST);
        width = n > width ? n : width;
    }
    printf("%-*s  %-5s %14s  shape\n", width, "name", "type", "bytes");
    for (size_t i = 0; i < reader->n_tensors; i++) {
        const st_tensor *t = &reader->tensors[i];
        printf("%-*s  %-5s %14" PRIu64 "  [", width, ebb__safetensors_show(t->name).text,
               ebb__safetensors_dtype_name(t->dtype), t->end - t->begin);
        for (int d = 0; d < t->rank; d++) {
            printf("%s%" PRId64, d > 0 ? ", " : "", t->dims[d]);
        }
        printf("]\n");
    }
    for (size_t i = 0; i < reader->n_notes; i++) {
        printf("note %s: %s\n", ebb__safetensors_show(reader->notes[i].key).text,
               ebb__safetensors_show(reader->notes[i].value).text);
    }
    uint64_t total = total_bytes(reader);
    printf("%zu tensor%s, %" PRIu64 " bytes (%s)\n", reader->n_tensors,
           reader->n_tensors == 1 ? "" : "s", total, ebb__unit_bytes(total).text);
}

static json_t *tensor_json(const st_tensor *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->rank; d++) {
        (void)json_array_append_new(shape, json_integer(t->dims[d]));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", t->name, "type",
                     ebb__safetensors_dtype_name(t->dtype), "shape", shape, "bytes",
                     ebb__cli_json_bytes(t->end - t->begin));
}

static json_t *file_json(const st_reader *reader) {
    json_t *tensors = json_array(), *notes = json_object();
    for (size_t i = 0; i < reader->n_tensors; i++) {
        (void)json_array_append_new(tensors, tensor_json(&reader->tensors[i]));
    }
    for (size_t i = 0; i < reader->n_notes; i++) {
        (void)json_object_set_new(notes, reader->notes[i].key, json_string(reader->notes[i].value));
    }
    return json_pack("{s:i, s:o, s:o, s:o}", "schema", 1, "tensors", tensors, "notes", notes,
                     "total_bytes", ebb__cli_json_bytes(total_bytes(reader)));
}

/* Named, or in a file of layers; anything else should be tensors. */
static bool is_net(const char *word) {
    const char *last = strrchr(word, '.');
    return ebb__net_is_named(word) ||
           (last != NULL && (strcmp(last, ".txt") == 0 || strcmp(last, ".cfg") == 0));
}

static ebb_status inspect_net(cli_call *call, const char *word) {
    net_model net;
    const char *text = NULL;
    ebb__net_init(&net, call->ctx);
    ebb_status status;
    TRY_OUT(ebb__net_is_named(word) ? ebb__net_named(&net, &(net_wish){.name = word})
                                    : ebb__net_load(&net, word));
    TRY_OUT(ebb__net_finish(&net));
    TRY_OUT(ebb__net_print(&net, &text));
    if (call->settings.json) {
        status = ebb__cli_print_json(call->ctx, json_pack("{s:i, s:s}", "schema", 1, "net", text));
    } else {
        (void)fputs(text, stdout);
    }
out:
    ebb__net_fini(&net);
    return status;
}

ebb_status ebb__cli_inspect(cli_call *call) {
    st_reader reader = {0};
    if (is_net(call->words[0])) {
        return inspect_net(call, call->words[0]);
    }
    TRY(ebb__safetensors_open(call->ctx, call->words[0], &reader));
    ebb_status status = EBB_OK;
    if (call->settings.json) {
        status = ebb__cli_print_json(call->ctx, file_json(&reader));
    } else {
        print_tensors(&reader);
    }
    ebb__safetensors_close(&reader);
    return status;
}
