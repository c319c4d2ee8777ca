/* layers.c - the layers of a net as a table of 100 columns: what each is and makes, what it takes,
 * and what of it waits for backward under the plan; as JSON all of them.
 *
 * A long net is told shorter: layers that pass on what stands before them share its line, then what
 * repeats itself is one block with sums, then rows in the middle are left out. */
#include "cli/command.h"

#include "base/names.h"
#include "train/kind.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_ROWS = 40, LONGEST_BLOCK = 64 };

typedef struct row {
    char name[160], what[64];
    int32_t rank, dim[3];
    int64_t parameters;
    double flops;
    uint64_t dense, coded, again; /* bytes */
    int32_t times;                /* that it stands for */
} row;

typedef struct table {
    alloc_region region;
    const op_forms *forms;
    const kind_layer *layers; /* as they are */
    const plan_kept *kept;
    int32_t *kept_at; /* by layer: its number in `kept`; -1: nothing of it is in the plan */
    row *rows;        /* by layer, until they are folded */
    int32_t n, n_layers;
} table;

/* ---- rows ---- */

/* NULL: nothing of the layer is in the plan. */
static const plan_kept *kept_of(const table *t, int32_t layer) {
    return t->kept_at[layer] < 0 ? NULL : &t->kept[t->kept_at[layer]];
}

static void fill_row(const table *t, const kind_layer *layer, const plan_kept *kept, row *out) {
    *out = (row){
        .rank = layer->rank, .parameters = layer->parameters, .flops = layer->flops, .times = 1};
    (void)snprintf(out->name, sizeof out->name, "%s", layer->name);
    (void)snprintf(out->what, sizeof out->what, "%s", layer->what);
    memcpy(out->dim, layer->dim, sizeof out->dim);
    for (int32_t i = 0; kept != NULL && i < t->forms->n; i++) {
        *(i == 0 ? &out->dense : &out->coded) += kept->bytes[i];
    }
}

/* What is computed again, into the rows of their layers. */
static void add_decisions(table *t, const names_table *names, const ebb_plan *plan) {
    for (int32_t i = 0; i < plan->n_decisions; i++) {
        int32_t at = ebb__names_find(names, t->layers, sizeof *t->layers, plan->decisions[i].layer);
        if (at >= 0 && plan->decisions[i].form == NULL) {
            t->rows[at].again += plan->decisions[i].bytes;
        }
    }
}

static ebb_status name_layers(table *t, names_table *names) {
    for (int32_t i = 0; i < t->n_layers; i++) {
        TRY(ebb__names_add(t->region.ctx, names, t->layers, sizeof *t->layers));
    }
    return EBB_OK;
}

static ebb_status make_table(const train_settings *s, const ebb_plan *plan, const op_forms *forms,
                             table *t) {
    names_table names = {0};
    plan_kept *kept = NULL;
    kind_layer *layers = NULL;
    int32_t n_kept = 0;
    ebb_status status;
    *t = (table){.forms = forms};
    ebb__region_init(&t->region, plan->ctx);
    TRY_OUT(s->kind->layers(s, &t->region, &layers, &t->n_layers));
    t->layers = layers;
    t->n = t->n_layers;
    TRY_OUT(name_layers(t, &names));
    TRY_OUT(ebb__plan_kept(plan, &t->region, &kept, &n_kept));
    t->kept = kept;
    TRY_OUT(REGION_ARRAYS(&t->region, ARRAY_NONE(t->kept_at, (size_t)t->n + 1),
                          ARRAY(t->rows, (size_t)t->n + 1)));
    for (int32_t i = 0; i < n_kept; i++) {
        int32_t at = ebb__names_find(&names, layers, sizeof *layers, kept[i].layer);
        if (at >= 0) {
            t->kept_at[at] = i;
        }
    }
    for (int32_t i = 0; i < t->n; i++) {
        fill_row(t, &layers[i], kept_of(t, i), &t->rows[i]);
    }
    add_decisions(t, &names, plan);
out:
    ebb__names_free(plan->ctx, &names);
    return status;
}

/* ---- shorter ---- */

static void add_numbers(row *to, const row *more) {
    to->parameters += more->parameters;
    to->flops += more->flops;
    to->dense += more->dense;
    to->coded += more->coded;
    to->again += more->again;
}

/* Layers that pass on what stands before them go into its row: "conv 3+bn+relu". */
static void join_rows(table *t) {
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++) {
        if (n == 0 || !t->layers[i].follows) {
            t->rows[n++] = t->rows[i];
            continue;
        }
        row *to = &t->rows[n - 1];
        const char *more = t->layers[i].what;
        size_t used = strlen(to->what);
        (void)snprintf(to->what + used, sizeof to->what - used, "+%.*s", (int)strcspn(more, " "),
                       more);
        to->rank = t->rows[i].rank;
        memcpy(to->dim, t->rows[i].dim, sizeof to->dim);
        add_numbers(to, &t->rows[i]);
    }
    t->n = n;
}

static bool same_row(const row *a, const row *b) {
    return strcmp(a->what, b->what) == 0 && a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0 && a->parameters == b->parameters;
}

/* How often the `period` rows at `i` follow each other. */
static int32_t count_blocks(const table *t, int32_t i, int32_t period) {
    int32_t n = 1;
    for (int32_t at = i + period; at + period <= t->n; at += period, n++) {
        for (int32_t k = 0; k < period; k++) {
            if (!same_row(&t->rows[i + k], &t->rows[at + k])) {
                return n;
            }
        }
    }
    return n;
}

/* Of blocks that begin at `i`, the one that covers most rows. */
static int32_t find_block(const table *t, int32_t i, int32_t *times) {
    int32_t best = 1;
    *times = 1;
    for (int32_t period = 1; period <= LONGEST_BLOCK && i + 2 * period <= t->n; period++) {
        int32_t n = count_blocks(t, i, period);
        if (n > 1 && n * period > best * *times) {
            best = period;
            *times = n;
        }
    }
    return best;
}

/* Blocks that follow each other become one, with the sums of all. */
static void fold_rows(table *t) {
    int32_t n = 0, times = 1;
    for (int32_t i = 0; i < t->n;) {
        int32_t period = find_block(t, i, &times);
        for (int32_t k = 0; k < period; k++) {
            row sum = t->rows[i + k];
            for (int32_t turn = 1; turn < times; turn++) {
                add_numbers(&sum, &t->rows[i + k + turn * period]);
            }
            sum.times = times;
            t->rows[n++] = sum; /* never beyond i + k */
        }
        i += period * times;
    }
    t->n = n;
}

/* ---- text ---- */

typedef struct short_text {
    char text[16];
} short_text;

/* "49.0M": at most 6 characters; nothing is "-". */
static short_text shorten(double value, double base) {
    static const char units[] = "\0kMGTPE";
    short_text out = {"-"};
    int unit = 0;
    while (value >= 999.95 && unit < 6) {
        value /= base;
        unit++;
    }
    if (value > 0) {
        (void)snprintf(out.text, sizeof out.text, unit == 0 ? "%.0f%c" : "%.1f%c", value,
                       units[unit]);
    }
    return out;
}

static short_text show_shape(const row *r) {
    short_text out;
    if (r->rank == 1) {
        (void)snprintf(out.text, sizeof out.text, "%" PRId32, r->dim[0]);
    } else if (r->dim[1] == r->dim[2]) {
        (void)snprintf(out.text, sizeof out.text, "%" PRId32 "x%" PRId32 "^2", r->dim[0],
                       r->dim[1]);
    } else {
        (void)snprintf(out.text, sizeof out.text, "%" PRId32 "x%" PRId32 "x%" PRId32, r->dim[0],
                       r->dim[1], r->dim[2]);
    }
    return out;
}

/* Of a long name the end, which tells layers apart. */
static void print_row(FILE *file, const row *r, const char *shape) {
    enum { NAME = 24, WHAT = 25 };
    char times[16] = "", name[NAME + 1];
    if (r->times > 1) {
        (void)snprintf(times, sizeof times, " x%" PRId32, r->times);
    }
    int room = NAME - (int)strlen(times), length = (int)strlen(r->name);
    bool fits = length <= room;
    (void)snprintf(name, sizeof name, "%s%.*s%s", fits ? "" : "..", fits ? room : room - 2,
                   r->name + (fits ? 0 : length - room + 2), times);
    (void)fprintf(file, "  %-*s %-*.*s %11s %6s %6s %6s %6s %6s\n", NAME, name, WHAT, WHAT, r->what,
                  shape, shorten((double)r->parameters, 1000).text, shorten(r->flops, 1000).text,
                  shorten((double)r->dense, 1024).text, shorten((double)r->coded, 1024).text,
                  shorten((double)r->again, 1024).text);
}

static void print_rows(FILE *file, const table *t, bool all) {
    int32_t half = MOST_ROWS / 2;
    row rest = {.name = "..."};
    for (int32_t i = 0; i < t->n; i++) {
        bool left_out = !all && t->n > MOST_ROWS && i >= half && i < t->n - half + 1;
        if (!left_out) {
            print_row(file, &t->rows[i], show_shape(&t->rows[i]).text);
            continue;
        }
        add_numbers(&rest, &t->rows[i]);
        if (i == t->n - half) {
            (void)snprintf(rest.what, sizeof rest.what, "%" PRId32 " more", t->n - MOST_ROWS + 1);
            print_row(file, &rest, "");
        }
    }
}

static void print_table(FILE *file, table *t, bool all) {
    row sum = {.name = "all"};
    for (int32_t i = 0; i < t->n; i++) {
        add_numbers(&sum, &t->rows[i]);
    }
    (void)snprintf(sum.what, sizeof sum.what, "%" PRId32 " layers", t->n_layers - 1);
    if (!all && t->n > MOST_ROWS) {
        join_rows(t);
    }
    if (!all && t->n > MOST_ROWS) {
        fold_rows(t);
    }
    (void)fprintf(file, "  %-24s %-25s %11s %6s %6s %6s %6s %6s\n", "layer", "", "output", "params",
                  "FLOPs", "kept", "coded", "again");
    print_rows(file, t, all);
    print_row(file, &sum, "");
    (void)fprintf(file, "  FLOPs forward, of an image; bytes of a batch that wait for backward as "
                        "they are,\n  that wait encoded, that are computed again\n");
    (void)fflush(file);
}

ebb_status ebb__cli_print_layers(FILE *file, const train_settings *s, const ebb_plan *plan,
                                 bool all) {
    op_forms forms = ebb__op_forms();
    table t;
    if (s->kind->layers == NULL) {
        return EBB_OK;
    }
    ebb_status status = make_table(s, plan, &forms, &t);
    if (status == EBB_OK) {
        print_table(file, &t, all);
    }
    ebb__region_fini(&t.region);
    return status;
}

/* ---- JSON ---- */

static json_t *layer_json(const table *t, int32_t i) {
    const row *r = &t->rows[i];
    const plan_kept *form = kept_of(t, i);
    json_t *output = json_array(), *kept = json_object();
    for (int32_t d = 0; d < r->rank; d++) {
        (void)json_array_append_new(output, json_integer(r->dim[d]));
    }
    for (int32_t k = 0; k < t->forms->n; k++) {
        if (form != NULL && form->bytes[k] > 0) {
            (void)json_object_set_new(kept, t->forms->names[k],
                                      ebb__cli_json_bytes(form->bytes[k]));
        }
    }
    return json_pack("{s:s, s:s, s:o, s:I, s:f, s:o, s:o}", "layer", r->name, "what", r->what,
                     "output", output, "parameters", (json_int_t)r->parameters, "flops", r->flops,
                     "kept_bytes", kept, "recomputed_bytes", ebb__cli_json_bytes(r->again));
}

ebb_status ebb__cli_layers_json(const train_settings *s, const ebb_plan *plan, json_t **out) {
    op_forms forms = ebb__op_forms();
    table t;
    ebb_status status = make_table(s, plan, &forms, &t);
    *out = status == EBB_OK ? json_array() : NULL;
    for (int32_t i = 0; *out != NULL && i < t.n; i++) {
        (void)json_array_append_new(*out, layer_json(&t, i));
    }
    ebb__region_fini(&t.region);
    return status;
}
