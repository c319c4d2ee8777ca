/* tune.c - times the forms of products, each by itself. See tune.h.
 *
 * A product is built again as a graph of one node. A large one is made smaller first: its largest
 * dimension, wherever it occurs, only repeats the work of the others (panels of columns, blocks of
 * k), so it is cut until the product takes a few milliseconds, and the time is scaled by the
 * arithmetic. Convolutions are done for fewer images. Repetitions walk through a ring of operands
 * as large as the whole product's, so that a cut product does not find in the cache what the whole
 * one would not.
 *
 * All forms run a few times; those close to the fastest run again, rounds later. The least mean
 * counts: noise only adds.
 */
#include "cost/tune.h"

#include "base/alloc.h"
#include "base/host.h"
#include "op/map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MOST_FLOPS = 3e8;     /* of a product that is run */
static const double ROUND_SECONDS = 3e-3; /* one form, one round */
static const double ROUNDS_SHARE = 0.75;  /* of the time; the rest is for duels */
static const double CLOSE = 1.15;         /* of the fastest: worth another round */
static const double UNREST = 1.25;        /* of a machine that has other work; */
static const double SHARE = 0.85;         /* there, others have a core for the rest of the time */
static const double NOT_LOST = 1.5; /* the same after one round: it may have been a slow moment */
enum {
    ALIGN = 64,
    LEAST_RUNS = 2, /* of one form in one round */
    MOST_RUNS = 24,
    PART_BYTES = 8 << 20,
    LEAST_ROUNDS = 3,
    ROUNDS = 12,
    SETTLE = ROUNDS, /* the last round: duels */
    DUEL_ROUNDS = 4,
    COLD_BYTES =
        2 << 20,        /* operands that other nodes push out of the cache before they come again */
    CUT = 96,           /* cut dimensions are odd multiples: no power of two, groups of 3 and 4 */
    LEAST_DIM = 9 * CUT /* less would fit caches that the whole does not fit */
};

/* One product, small enough to be run. */
typedef struct tune_node {
    ir_graph graph;
    ir_node node;
    op_cost cost;
    int members;                             /* that share it when it is run */
    double scale;                            /* the whole product's work in units of this one's */
    size_t offset[COST_MAX_IN + IR_MAX_OUT]; /* of operands, then results, in a slot of the ring */
    size_t bytes;                            /* of a slot */
} tune_node;

typedef struct tune_run {
    device_instr instr;
    op_view views[COST_MAX_IN + IR_MAX_OUT];
} tune_run;

typedef struct tune_state {
    ebb_ctx *ctx;
    const device *dev;
    int members;
    device_stream *stream;
    void *buffer;
    char *pool;              /* addresses of the device, */
    size_t head, pool_bytes; /* behind so many bytes for its descriptors of the runs */
    tune_run *runs;
    device_instr *list[MOST_RUNS];
    size_t slots, next; /* of the ring */
    bool better;        /* this round lowered a time */
    double unrest;      /* sum over runs, of how far each is from the least of its form */
    int64_t n_unrest;
    double taken, had; /* seconds of all timed runs, and of them with a core */
    double end, last;  /* when the time for rounds is over, and all time */
} tune_state;

static size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int runs_for(double seconds) {
    return (int)fmin(fmax(ROUND_SECONDS / seconds, LEAST_RUNS), MOST_RUNS);
}

/* ---- a product by itself ---- */

static ebb_status emit(tune_node *t, ebb_ctx *ctx, const cost_sample *sample,
                       const ir_type *types) {
    ir_val in[COST_MAX_IN], out[IR_MAX_OUT];
    char name[16];
    ebb__op_graph_init(&t->graph, ctx);
    for (int32_t i = 0; i < sample->n_in; i++) {
        in[i] = IR_NONE;
        if (types[i].rank > 0) {
            (void)snprintf(name, sizeof name, "in%d", i);
            TRY(ebb__ir_add_variable(&t->graph, IR_INPUT, name, &types[i], &in[i]));
        }
    }
    TRY(ebb__op_emit(&t->graph, (op_code)sample->op, in, sample->n_in, &sample->attr, out));
    t->node = t->graph.order[0];
    t->cost = ebb__op_cost(&t->graph, &t->graph.nodes[t->node]);
    const ir_type *type = &t->graph.values[out[0]].type;
    double elements = (double)sample->key.m * (double)sample->key.n;
    t->scale = t->cost.flops > 0 ? 2.0 * elements * (double)sample->key.k / t->cost.flops
                                 : elements / ((double)ebb__ir_rows(type) * (double)ir_cols(type));
    return EBB_OK;
}

static const ir_type *type_of(const tune_node *t, int32_t i) {
    const ir_node_rec *node = &t->graph.nodes[t->node];
    return i < node->n_in ? op_in_type(&t->graph, node, i)
                          : &t->graph.values[node->out + i - node->n_in].type;
}

/* The operand whose bytes result `out` is computed in, as the planner would; -1: none. */
static int32_t shared_with(const tune_node *t, int32_t out) {
    const ir_node_rec *node = &t->graph.nodes[t->node];
    const op_def *op = ebb__op(node->op);
    for (int32_t i = 0; i < op->n_inplace; i++) {
        const ir_type *type = op_in_type(&t->graph, node, op->inplace[i].in);
        if (op->inplace[i].out == out && type != NULL &&
            ebb__ir_type_equal(type, type_of(t, node->n_in + out))) {
            return op->inplace[i].in;
        }
    }
    return -1;
}

static void lay_out(tune_node *t) {
    const ir_node_rec *node = &t->graph.nodes[t->node];
    t->bytes = 0;
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        const ir_type *type = type_of(t, i);
        int32_t shared = i >= node->n_in ? shared_with(t, i - node->n_in) : -1;
        if (type == NULL || shared >= 0) {
            t->offset[i] = shared >= 0 ? t->offset[shared] : 0;
            continue;
        }
        t->offset[i] = t->bytes;
        t->bytes += aligned((size_t)ebb__ir_type_bytes(type));
    }
}

/* The largest dimension of an operand that is less than `below`; 0: there is none. */
static int32_t next_dim(const cost_sample *sample, const ir_type *types, int32_t below) {
    int32_t largest = 0;
    for (int32_t i = 0; i < sample->n_in; i++) {
        for (int32_t d = 0; d < types[i].rank; d++) {
            int32_t dim = types[i].dim[d];
            largest = dim < below && dim > largest ? dim : largest;
        }
    }
    return largest;
}

static void replace_dim(const cost_sample *sample, ir_type *types, int32_t old, int32_t fresh) {
    for (int32_t i = 0; i < sample->n_in; i++) {
        for (int32_t d = 0; d < types[i].rank; d++) {
            types[i].dim[d] = types[i].dim[d] == old ? fresh : types[i].dim[d];
        }
    }
}

/* The product of such types instead, if op and kernel allow it; *done: so it is. */
static ebb_status replace(ebb_ctx *ctx, const device_kernel *kernel, const cost_sample *sample,
                          const ir_type *fewer, ir_type *types, tune_node *t, bool *done) {
    tune_node small = {0};
    ebb_status status = emit(&small, ctx, sample, fewer);
    *done =
        status == EBB_OK && (kernel->accept == NULL ||
                             kernel->accept(&small.graph, &small.graph.nodes[small.node]) == NULL);
    if (*done) {
        ebb__ir_fini(&t->graph);
        *t = small;
        memcpy(types, fewer, COST_MAX_IN * sizeof *types);
        return EBB_OK;
    }
    ebb__ir_fini(&small.graph);
    if (status != EBB_OK && status != EBB_USAGE) {
        return status;
    }
    ebb__ctx_clear(ctx);
    return EBB_OK;
}

/* Of maps, fewer groups of images (the first of six axes): all else decides how they are read. */
static ebb_status cut_images(ebb_ctx *ctx, const device_kernel *kernel, const cost_sample *sample,
                             double factor, ir_type *types, tune_node *t, bool *done) {
    ir_type fewer[COST_MAX_IN];
    bool less = false;
    *done = false;
    memcpy(fewer, types, sizeof fewer);
    for (int32_t i = 0; i < sample->n_in; i++) {
        int32_t groups = (int32_t)((double)types[i].dim[0] / factor);
        if (op_is_map(&types[i]) && types[i].dim[0] > 1) {
            fewer[i].dim[0] = groups > 1 ? groups : 1;
            less = true;
        }
    }
    return less ? replace(ctx, kernel, sample, fewer, types, t, done) : EBB_OK;
}

static bool has_maps(const cost_sample *sample) {
    bool found = false;
    for (int32_t i = 0; i < sample->n_in; i++) {
        found = found || op_is_map(&sample->in[i]);
    }
    return found;
}

/* Builds the product with its largest dimension divided by `factor`, or with the next one where
 * the op does not allow that (an operand in packed panels). *done false: it cannot be smaller. */
static ebb_status cut(ebb_ctx *ctx, const device_kernel *kernel, const cost_sample *sample,
                      double factor, int32_t least, ir_type *types, tune_node *t, bool *done) {
    int32_t dim = next_dim(sample, types, INT32_MAX);
    *done = false;
    if (has_maps(sample)) {
        return cut_images(ctx, kernel, sample, factor, types, t, done);
    }
    for (; dim > least && !*done; dim = next_dim(sample, types, dim)) {
        ir_type fewer[COST_MAX_IN];
        int32_t fresh = ((int32_t)((double)dim / factor) / CUT | 1) * CUT;
        fresh = fresh < least ? least : fresh;
        if (fresh >= dim) {
            return EBB_OK;
        }
        memcpy(fewer, types, sizeof fewer);
        replace_dim(sample, fewer, dim, fresh);
        TRY(replace(ctx, kernel, sample, fewer, types, t, done));
    }
    return EBB_OK;
}

/* The sample as a graph of one node that can be run; *fits false if it cannot be made small enough.
 * Close with ebb__ir_fini in any case. */
static ebb_status build(const tune_state *s, const cost_sample *sample, tune_node *t, bool *fits) {
    const device_kernel *kernel = &s->dev->kernels[sample->key.kernel];
    ir_type types[COST_MAX_IN];
    bool more = true;
    memcpy(types, sample->in, sizeof types);
    TRY(emit(t, s->ctx, sample, types));
    while (more) {
        lay_out(t);
        double room = 1.25 * (double)t->bytes / (double)s->pool_bytes;
        double factor = fmax(t->cost.flops / MOST_FLOPS, room);
        more = false;
        if (factor > 1) {
            TRY(cut(s->ctx, kernel, sample, factor, room > 1 ? CUT : LEAST_DIM, types, t, &more));
        }
    }
    const ir_node_rec *node = &t->graph.nodes[t->node];
    double alone = ebb__cost_alone(s->dev, &t->graph, node, sample->key.kernel);
    t->members = ebb__cost_members(s->dev, alone, s->members);
    *fits = t->bytes <= s->pool_bytes;
    return EBB_OK;
}

/* ---- timing ---- */

/* Numbers that stay finite when they are multiplied and added up again and again. */
static void fill_part(float *data, size_t n) {
    for (size_t i = 0; i < n; i++) {
        data[i] = 0.001F * (float)(1 + i % 13);
    }
}

/* In parts: where the memory is not the host's, each is host memory for a moment. */
static ebb_status fill(const tune_state *s) {
    const device_buffer_table *table = &s->dev->buffer;
    for (size_t at = 0; at < s->pool_bytes; at += PART_BYTES) {
        size_t bytes = s->pool_bytes - at < PART_BYTES ? s->pool_bytes - at : PART_BYTES;
        void *data = s->pool + at;
        if (table->map != NULL) {
            TRY(table->map(s->ctx, s->buffer, s->head + at, bytes, DEVICE_WRITE, &data));
        }
        fill_part(data, bytes / sizeof(float));
        if (table->unmap != NULL) {
            TRY(table->unmap(s->ctx, s->buffer, s->head + at, bytes, DEVICE_WRITE, data));
        }
    }
    return EBB_OK;
}

/* The first of the list, until they are done. */
static ebb_status run_list(tune_state *s, int count) {
    const device_buffer_table *table = &s->dev->buffer;
    const device_instr *list[MOST_RUNS];
    memcpy(list, s->list, sizeof list);
    TRY(s->dev->stream.run(s->stream, list, count, NULL, NULL));
    if (table->mark != NULL) {
        TRY(table->mark(s->ctx, s->buffer));
        TRY(table->await(s->ctx, s->buffer));
    }
    return EBB_OK;
}

static ebb_status prepare_run(const tune_state *s, const tune_node *t, const cost_sample *sample,
                              int32_t form, char *slot, size_t scratch, tune_run *run) {
    const device_kernel *kernel = &s->dev->kernels[sample->key.kernel];
    const ir_node_rec *node = &t->graph.nodes[t->node];
    *run = (tune_run){.instr = {.run = kernel->run,
                                .attr = node->attr,
                                .kernel = sample->key.kernel,
                                .label = node->label}};
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        const ir_type *type = type_of(t, i);
        if (type != NULL) {
            run->views[i] = (op_view){slot + t->offset[i], *type, (int32_t)ir_cols(type)};
        }
    }
    run->instr.call =
        (op_call){.in = run->views,
                  .out = run->views + node->n_in,
                  .n_in = node->n_in,
                  .n_out = node->n_out,
                  .attr = &run->instr.attr,
                  .workspace = scratch > 0 ? s->pool + s->pool_bytes - aligned(scratch) : NULL,
                  .workspace_bytes = scratch,
                  .prepared = run->instr.prepared,
                  .form = form,
                  .members = t->members};
    return kernel->prepare == NULL ? EBB_OK
                                   : kernel->prepare(s->ctx, &run->instr.call, run->instr.prepared);
}

/* Runs one form `count` times and lowers *seconds to their mean; *seconds stays as it is if
 * the scratch does not fit beside the ring. */
static ebb_status time_form(tune_state *s, const tune_node *t, const cost_sample *sample,
                            int32_t form, int count, double *seconds) {
    const device_kernel *kernel = &s->dev->kernels[sample->key.kernel];
    size_t scratch = kernel->workspace == NULL
                         ? 0
                         : kernel->workspace(&t->graph, &t->graph.nodes[t->node], form, s->members);
    if (scratch > s->pool_bytes || s->pool_bytes - aligned(scratch) < t->bytes) {
        return EBB_OK;
    }
    size_t room = (s->pool_bytes - aligned(scratch)) / t->bytes;
    size_t slots = room < s->slots ? room : s->slots;
    for (int i = 0; i < count; i++) {
        char *slot = s->pool + s->next++ % slots * t->bytes;
        TRY(prepare_run(s, t, sample, form, slot, scratch, &s->runs[i]));
        s->list[i] = &s->runs[i].instr;
    }
    if (s->dev->stream.load != NULL) {
        TRY(s->dev->stream.load(s->stream, s->buffer, 0, s->list, count));
    }
    TRY(run_list(s, 1)); /* code, scratch and team are warm */
    /* The whole list: members leave a barrier at different times, so one run has no clear start. */
    double start = ebb__clock_seconds(), had = ebb__thread_seconds();
    TRY(run_list(s, count));
    double taken = ebb__clock_seconds() - start;
    *seconds = fmin(*seconds, taken / count);
    s->had += ebb__thread_seconds() - had;
    s->taken += taken;
    return EBB_OK;
}

/* Alone on the machine, the same work takes the same time; beside other work, turns are long and
 * short. The runs themselves tell, so nothing else has to be run for that. Where others always have
 * the core for a while in between, all turns are long: see is_busy. */
static void note_unrest(tune_state *s, double seconds, double before) {
    if (seconds < HUGE_VAL && before < HUGE_VAL) {
        s->unrest += fmax(seconds, before) / fmin(seconds, before);
        s->n_unrest++;
    }
}

/* One more round over the forms of a product that may still be the fastest. What there was no time
 * or room for keeps HUGE_VAL. */
static ebb_status time_forms(tune_state *s, const tune_node *t, const cost_sample *sample,
                             int round, cost_entry *entry) {
    const ir_node_rec *node = &t->graph.nodes[t->node];
    double fastest = HUGE_VAL;
    double one = ebb__cost_seconds(s->dev, &t->graph, node, sample->key.kernel, s->members);
    int count = runs_for(one);
    size_t room = s->pool_bytes / t->bytes, wanted = (size_t)ceil(t->scale);
    s->slots = t->bytes >= COLD_BYTES || wanted > room ? room : wanted;
    s->slots = s->slots > 0 ? s->slots : 1;
    if (round == 0) {
        entry->n_forms = sample->n_forms;
        for (int32_t i = 0; i < sample->n_forms; i++) {
            entry->forms[i] = (cost_form){sample->forms[i], HUGE_VAL};
        }
    }
    for (int32_t i = 0; i < entry->n_forms; i++) {
        fastest = fmin(fastest, entry->forms[i].seconds);
    }
    for (int32_t i = 0; i < entry->n_forms && ebb__clock_seconds() < s->end; i++) {
        cost_form *form = &entry->forms[i];
        if (round == 0 || form->seconds < (round == 1 ? NOT_LOST : CLOSE) * fastest) {
            double seconds = HUGE_VAL;
            TRY(time_form(s, t, sample, form->form, count, &seconds));
            seconds = t->scale * fmax(seconds, 1e-9);
            s->better = s->better || seconds < 0.99 * form->seconds;
            note_unrest(s, seconds, form->seconds);
            form->seconds = fmin(form->seconds, seconds);
        }
    }
    return EBB_OK;
}

/* Is the form that would be taken really faster than the kernel's own first one? Both in turns, at
 * the same moments: what was measured at different times is too rough for that. */
static ebb_status duel(tune_state *s, const tune_node *t, const cost_sample *sample,
                       cost_form *first, cost_form *other) {
    const ir_node_rec *node = &t->graph.nodes[t->node];
    double one = ebb__cost_seconds(s->dev, &t->graph, node, sample->key.kernel, s->members);
    double a = HUGE_VAL, b = HUGE_VAL;
    for (int i = 0; i < DUEL_ROUNDS; i++) {
        TRY(time_form(s, t, sample, first->form, runs_for(one), &a));
        TRY(time_form(s, t, sample, other->form, runs_for(one), &b));
    }
    first->seconds = t->scale * a;
    other->seconds = t->scale * b;
    return EBB_OK;
}

static cost_form *find_form(cost_entry *entry, int32_t form) {
    int32_t i = ebb__cost_entry_find(entry, form);
    return i < 0 ? NULL : &entry->forms[i];
}

/* The kernel's first form stays unless another wins a duel; one that had no time for it does not.
 */
static ebb_status settle(tune_state *s, const cost_sample *sample, const tune_node *t,
                         cost_entry *entry) {
    cost_form *first = find_form(entry, sample->forms[0]);
    for (int32_t i = 0; first != NULL && i < entry->n_forms; i++) {
        double unused;
        int32_t form = ebb__cost_pick(entry, sample->forms, sample->n_forms, &unused);
        cost_form *other = find_form(entry, form);
        if (other == first) {
            break;
        }
        if (ebb__clock_seconds() < s->last) {
            TRY(duel(s, t, sample, first, other));
            form = ebb__cost_pick(entry, sample->forms, sample->n_forms, &unused);
            if (form == other->form) {
                break;
            }
        }
        other->seconds = fmax(other->seconds, first->seconds);
    }
    return EBB_OK;
}

static ebb_status measure(tune_state *s, const cost_sample *sample, int round, cost_entry *entry) {
    tune_node t = {0};
    bool fits = false;
    ebb_status status = build(s, sample, &t, &fits);
    if (status == EBB_OK && fits) {
        status =
            round < SETTLE ? time_forms(s, &t, sample, round, entry) : settle(s, sample, &t, entry);
    }
    ebb__ir_fini(&t.graph);
    return status;
}

/* Leaves the forms that were timed. */
static void drop_untimed(cost_entry *entry) {
    int32_t tried = entry->n_forms;
    entry->n_forms = 0;
    for (int32_t i = 0; i < tried; i++) {
        if (entry->forms[i].seconds < HUGE_VAL) {
            entry->forms[entry->n_forms++] = entry->forms[i];
        }
    }
}

/* ---- all of them ---- */

typedef struct tune_turn {
    double worth; /* seconds of a step for a second of measuring */
    int32_t sample;
} tune_turn;

static double worth_of(const cost_sample *sample) {
    const cost_key *key = &sample->key;
    double flops = 2.0 * (double)key->m * (double)key->n * (double)key->k;
    double one = sample->model * fmin(1, MOST_FLOPS / fmax(flops, 1));
    return sample->weight / (one * runs_for(one) * sample->n_forms);
}

static int compare_turns(const void *a, const void *b) {
    const tune_turn *x = a, *y = b;
    if (x->worth != y->worth) {
        return x->worth < y->worth ? 1 : -1;
    }
    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Measured seconds in units of the model's, over the kernel's products that were measured. */
static double model_error(const cost_survey *survey, const cost_table *table, int32_t kernel) {
    double measured = 0, model = 0;
    for (int32_t i = 0; i < survey->n_samples; i++) {
        const cost_sample *sample = &survey->samples[i];
        const cost_entry *entry = ebb__cost_table_find(table, &sample->key);
        if (sample->key.kernel == kernel && entry != NULL && entry->n_forms > 0) {
            measured += ebb__cost_entry_fastest(entry);
            model += sample->model;
        }
    }
    return measured > 0 && model > 0 ? measured / model : 1;
}

/* Round after round over all products, so that the rounds of one lie far apart: a machine shared
 * with others has slow moments of a second and more, which must not stick to one product. */
static ebb_status run_rounds(tune_state *s, const cost_survey *survey, const tune_turn *turns,
                             int32_t n, const cost_limits *limits, cost_entry *entries) {
    s->better = true;
    for (int round = 0; round < ROUNDS && s->better; round++) {
        s->better = round < LEAST_ROUNDS;
        TRY(fill(s));
        for (int32_t i = 0; i < n && ebb__clock_seconds() < s->end; i++) {
            TRY(measure(s, &survey->samples[turns[i].sample], round, &entries[i]));
            if (limits->done != NULL) {
                limits->done(limits->user, round * n + i + 1, ROUNDS * n);
            }
        }
    }
    if (limits->done != NULL) {
        limits->done(limits->user, ROUNDS * n, ROUNDS * n);
    }
    return EBB_OK;
}

/* Of two measurements on a busy machine the one with the least time counts, noise only adds; of
 * one on a busy and one on a quiet machine the latter. */
static void keep(cost_entry *kept, const cost_entry *fresh, bool busy) {
    int32_t loaded = busy && fresh->n_forms > 0 ? kept->loaded + 1 : 0;
    if (fresh->n_forms == 0 && kept->n_forms > 0) {
        return; /* no time to do it again */
    }
    if (!busy || ebb__cost_entry_fastest(fresh) <= ebb__cost_entry_fastest(kept)) {
        *kept = *fresh;
    }
    kept->loaded = loaded;
}

/* A team's first member works, or spins, nearly all the time; who calls a driver may sleep. */
static bool is_busy(const tune_state *s, const cost_tuned *tuned) {
    return tuned->unrest > UNREST || (s->dev->stream.load == NULL && tuned->share < SHARE);
}

static ebb_status run_turns(tune_state *s, const cost_survey *survey, cost_table *table,
                            const tune_turn *turns, int32_t n, const cost_limits *limits,
                            cost_tuned *out) {
    cost_entry *entries = NULL;
    TRY(ebb__alloc(s->ctx, (size_t)n + 1, sizeof *entries, &entries));
    for (int32_t i = 0; i < n; i++) {
        entries[i].key = survey->samples[turns[i].sample].key;
    }
    ebb_status status = run_rounds(s, survey, turns, n, limits, entries);
    out->unrest = s->n_unrest > 0 ? s->unrest / (double)s->n_unrest : 1;
    out->share = s->taken > 0 ? s->had / s->taken : 1;
    for (int32_t i = 0; i < n && status == EBB_OK; i++) {
        cost_entry *kept = NULL;
        drop_untimed(&entries[i]);
        status = measure(s, &survey->samples[turns[i].sample], SETTLE, &entries[i]);
        if (status != EBB_OK) {
            break;
        }
        out->measured += entries[i].n_forms > 0;
        status = ebb__cost_table_add(table, &entries[i].key, &kept);
        if (status == EBB_OK) {
            keep(kept, &entries[i], is_busy(s, out));
        }
    }
    ebb__free(s->ctx, entries);
    TRY(status);
    /* Side by side, a measured and a modelled product must not look different for that alone. */
    for (int32_t i = 0; i < n; i++) {
        const cost_sample *sample = &survey->samples[turns[i].sample];
        cost_entry *entry = NULL;
        TRY(ebb__cost_table_add(table, &sample->key, &entry));
        if (entry->n_forms == 0) {
            entry->estimate = sample->model * model_error(survey, table, sample->key.kernel);
        }
    }
    out->left = n - out->measured;
    return EBB_OK;
}

ebb_status ebb__cost_tune(const cost_survey *survey, cost_table *table, const cost_limits *limits,
                          cost_tuned *out) {
    double start = ebb__clock_seconds();
    tune_state s = {.ctx = survey->ctx,
                    .dev = survey->dev,
                    .members = survey->members,
                    .end = start + ROUNDS_SHARE * limits->seconds,
                    .last = start + limits->seconds};
    uint64_t bytes = limits->bytes < COST_TUNE_BYTES ? limits->bytes : COST_TUNE_BYTES;
    s.head = aligned((size_t)MOST_RUNS *
                     ((size_t)s.dev->instr_bytes +
                      (size_t)(COST_MAX_IN + IR_MAX_OUT) * (size_t)s.dev->view_bytes));
    s.pool_bytes = bytes > s.head ? ((size_t)bytes - s.head) / ALIGN * ALIGN : 0;
    tune_turn *turns = NULL;
    int32_t n = 0;
    ebb_status status;
    *out = (cost_tuned){0};
    TRY(ebb__alloc(s.ctx, (size_t)survey->n_samples + 1, sizeof *turns, &turns));
    for (int32_t i = 0; i < survey->n_samples; i++) {
        const cost_entry *known = ebb__cost_table_find(table, &survey->samples[i].key);
        if (known == NULL || cost_entry_doubtful(known) || (limits->again && known->n_forms == 0)) {
            turns[n++] = (tune_turn){worth_of(&survey->samples[i]), i};
        }
    }
    qsort(turns, (size_t)n, sizeof *turns, compare_turns);
    TRY_OUT(ebb__alloc(s.ctx, MOST_RUNS, sizeof *s.runs, &s.runs));
    TRY_OUT(s.dev->stream.create(s.dev, s.ctx, s.members, &s.stream));
    TRY_OUT(s.dev->buffer.create(s.dev, s.ctx, s.head + s.pool_bytes, &s.buffer));
    s.pool = (char *)s.dev->buffer.address(s.buffer) + s.head;
    status = run_turns(&s, survey, table, turns, n, limits, out);
    out->seconds = ebb__clock_seconds() - start;
out:
    s.dev->stream.destroy(s.stream);
    if (s.buffer != NULL) {
        s.dev->buffer.destroy(s.ctx, s.buffer, s.head + s.pool_bytes);
    }
    ebb__free(s.ctx, s.runs);
    ebb__free(s.ctx, turns);
    return status;
}
