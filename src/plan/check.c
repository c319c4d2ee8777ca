/* check.c - the independent verifier. It replays the program on a symbolic arena whose bytes are
 * tagged with the value they hold, and refuses the plan if an operand, a variable's next value or
 * an output would not find what the graph says, if anything lies outside the arena, or if a node
 * writes over its own operands where its op does not allow it, or if members of a run could disturb
 * each other. It takes only addresses and
 * leading dimensions from the planner and shares no code with storage.c and place.c.
 */
#include "op/map.h"
#include "plan/passes.h"

#include <string.h>

/* A run of bytes [lo, hi) that holds bytes [from, from + hi - lo) of a value, dense row-major. */
typedef struct tag {
    uint64_t lo, hi, from;
    ir_val value;
} tag;

/* The arena cut in equal buckets, each a sorted list of disjoint runs. */
typedef struct tag_bucket {
    tag *tags;
    int32_t n;
    size_t capacity;
} tag_bucket;

typedef struct checker {
    pass_unit *unit;
    const ir_graph *g;
    const plan_placement *p;
    alloc_region region;
    uint64_t arena_bytes, bucket_bytes;
    uint64_t away_end; /* of what lies outside the arena; addresses of that follow it */
    tag_bucket *buckets;
    size_t n_buckets;
    int64_t *start; /* by operand of a join: where it begins along the axis */
    ir_node node;   /* being replayed, for messages */
} checker;

static const char *op_name(const checker *c) {
    return c->node == IR_NONE ? "end of step" : c->g->schemas[c->g->nodes[c->node].op]->name;
}

static const char *value_name(const checker *c, ir_val v) {
    return v != IR_NONE && c->g->values[v].name != NULL ? c->g->values[v].name : "temporary";
}

static ebb_status refuse(const checker *c, const char *what, ir_val v) {
    return ebb__fail(c->unit->ctx, EBB_INTERNAL, "verify: %s: %s of value %d (%s)", op_name(c),
                     what, v, value_name(c, v));
}

/* ---- tags ---- */

static ebb_status bucket_insert(checker *c, tag_bucket *b, int32_t at, tag t) {
    TRY(ebb__region_grow(&c->region, &b->tags, &b->capacity, (size_t)b->n + 1, sizeof *b->tags));
    memmove(&b->tags[at + 1], &b->tags[at], (size_t)(b->n - at) * sizeof *b->tags);
    b->tags[at] = t;
    b->n++;
    return EBB_OK;
}

/* The first run that ends behind an address. */
static int32_t bucket_find(const tag_bucket *b, uint64_t address) {
    int32_t lo = 0, hi = b->n;
    while (lo < hi) {
        int32_t mid = (lo + hi) / 2;
        if (b->tags[mid].hi <= address) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Replaces whatever the bucket holds in [t.lo, t.hi) by t. */
static ebb_status bucket_write(checker *c, tag_bucket *b, tag t) {
    int32_t i = bucket_find(b, t.lo);
    if (i < b->n && b->tags[i].lo < t.lo) {
        tag left = b->tags[i];
        tag right = left;
        left.hi = t.lo;
        b->tags[i] = left;
        i++;
        if (right.hi > t.hi) {
            right.from += t.hi - right.lo;
            right.lo = t.hi;
            TRY(bucket_insert(c, b, i, right));
        }
    }
    int32_t end = i;
    while (end < b->n && b->tags[end].hi <= t.hi) {
        end++;
    }
    if (end < b->n && b->tags[end].lo < t.hi) {
        b->tags[end].from += t.hi - b->tags[end].lo;
        b->tags[end].lo = t.hi;
    }
    if (end == i) {
        return bucket_insert(c, b, i, t);
    }
    b->tags[i] = t;
    if (end > i + 1) {
        memmove(&b->tags[i + 1], &b->tags[end], (size_t)(b->n - end) * sizeof *b->tags);
        b->n -= end - i - 1;
    }
    return EBB_OK;
}

static bool bucket_holds(const tag_bucket *b, tag t) {
    int32_t i = bucket_find(b, t.lo);
    for (uint64_t at = t.lo; at < t.hi; i++) {
        if (i == b->n || b->tags[i].lo > at || b->tags[i].value != t.value ||
            b->tags[i].from + (at - b->tags[i].lo) != t.from + (at - t.lo)) {
            return false;
        }
        at = b->tags[i].hi;
    }
    return true;
}

/* Walks the buckets that [t.lo, t.hi) touches; writes or compares each share. */
static ebb_status apply(checker *c, tag t, bool write, bool *holds) {
    while (t.lo < t.hi) {
        size_t index = (size_t)(t.lo / c->bucket_bytes);
        uint64_t end = (uint64_t)(index + 1) * c->bucket_bytes;
        tag share = t;
        share.hi = t.hi < end ? t.hi : end;
        if (write) {
            TRY(bucket_write(c, &c->buckets[index], share));
        } else if (!bucket_holds(&c->buckets[index], share)) {
            *holds = false;
            return EBB_OK;
        }
        t.from += share.hi - share.lo;
        t.lo = share.hi;
    }
    return EBB_OK;
}

/* ---- values as rows and columns of memory ---- */

/* `rows` times `cols` elements of a value, counted as if it were dense, each `step` behind the one
 * before; they should lie at `address`, and `ld` elements apart. */
typedef struct window {
    int64_t first, step, rows, cols;
    uint64_t address;
    int64_t ld;
} window;

static bool is_away(const checker *c, ir_val v) {
    ir_node def = c->g->values[v].def;
    return def != IR_NONE && ebb__op(c->g->nodes[def].op)->transfer == TRANSFER_OUT;
}

/* What has left the arena lies behind it, all else in it. */
static bool lies_inside(const checker *c, ir_val v, uint64_t lo, uint64_t bytes) {
    uint64_t begin = is_away(c, v) ? c->p->away_base : 0;
    uint64_t end = is_away(c, v) ? c->away_end : c->arena_bytes;
    return lo >= begin && lo <= end && bytes <= end - lo;
}

/* Writes or compares a window of a value that is written by a node or is a variable. */
static ebb_status apply_window(checker *c, ir_val v, const window *w, bool write, bool *holds) {
    uint64_t size = ebb__ir_dtype_bytes(c->g->values[v].type.dtype);
    bool dense = w->step == w->cols && w->ld == w->cols;
    int64_t runs = dense ? 1 : w->rows;
    uint64_t bytes = (uint64_t)(dense ? w->rows * w->cols : w->cols) * size;
    for (int64_t r = 0; r < runs; r++) {
        uint64_t lo = w->address + (uint64_t)(r * w->ld) * size;
        if (!lies_inside(c, v, lo, bytes)) {
            return refuse(c, "bytes outside the arena", v);
        }
        if (lo % size != 0) {
            return refuse(c, "misaligned bytes", v);
        }
        tag t = {.lo = lo,
                 .hi = lo + bytes,
                 .from = (uint64_t)(w->first + r * w->step) * size,
                 .value = v};
        TRY(apply(c, t, write, holds));
    }
    return EBB_OK;
}

static ebb_status find_starts(checker *c) {
    const ir_graph *g = c->g;
    TRY(ebb__region_alloc(&c->region, (size_t)g->n_operands + 1, sizeof *c->start, &c->start));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t axis;
        op_part part = {0};
        while (ebb__op_is_join(node, &axis) && ebb__op_next_part(g, node, &part)) {
            c->start[node->in + part.number - 1] = part.begin;
        }
    }
    return EBB_OK;
}

/* The operand of a join that begins at or before `at`, the last of them. */
static int32_t operand_at(const checker *c, const ir_node_rec *node, int64_t at) {
    int32_t lo = 0, hi = node->n_in;
    while (hi - lo > 1) {
        int32_t mid = (lo + hi) / 2;
        if (c->start[node->in + mid] <= at) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static ebb_status compare(checker *c, ir_val v, window w, bool *holds);

/* A part of a row of the window, or of all rows alike, which are `apart` stretches apart. */
static ebb_status compare_row(checker *c, const ir_node_rec *join, const op_part *whole, window w,
                              int64_t apart, bool *holds) {
    const ir_graph *g = c->g;
    uint64_t size = ebb__ir_dtype_bytes(g->values[join->out].type.dtype);
    int64_t stretch = whole->extent * whole->inner, from = w.first % stretch, to = from + w.cols;
    for (int32_t k = operand_at(c, join, from / whole->inner); k < join->n_in && *holds; k++) {
        ir_val x = ir_in(g, join, k);
        int64_t mine = g->values[x].type.dim[whole->axis] * whole->inner;
        int64_t begin = c->start[join->in + k] * whole->inner;
        int64_t lo = from > begin ? from : begin, hi = to < begin + mine ? to : begin + mine;
        if (lo >= hi) {
            break;
        }
        window part = w;
        part.first = w.first / stretch * mine + lo - begin;
        part.step = w.rows > 1 ? apart * mine : hi - lo;
        part.cols = hi - lo;
        part.address += (uint64_t)(lo - from) * size;
        TRY(compare(c, x, part, holds));
    }
    return EBB_OK;
}

/* Rows that all lie in one stretch: as many at a time as are whole rows of one operand. */
static ebb_status compare_rows(checker *c, const ir_node_rec *join, const op_part *whole, window w,
                               bool *holds) {
    const ir_graph *g = c->g;
    uint64_t size = ebb__ir_dtype_bytes(g->values[join->out].type.dtype);
    int64_t stretch = whole->extent * whole->inner;
    for (int64_t r = 0, n; r < w.rows && *holds; r += n) {
        window part = w;
        part.first += r * w.step;
        part.address += (uint64_t)(r * w.ld) * size;
        int64_t at = part.first % stretch;
        int32_t k = operand_at(c, join, at / whole->inner);
        int64_t mine = g->values[ir_in(g, join, k)].type.dim[whole->axis] * whole->inner;
        int64_t left = c->start[join->in + k] * whole->inner + mine - at;
        n = left < w.cols ? 1 : (left - w.cols) / w.step + 1;
        n = n < w.rows - r ? n : w.rows - r;
        part.rows = n;
        if (left < w.cols) {
            TRY(compare_row(c, join, whole, part, 0, holds));
        } else {
            part.first = part.first / stretch * mine + mine - left;
            TRY(compare(c, ir_in(g, join, k), part, holds));
        }
    }
    return EBB_OK;
}

/* Row by row, each cut where a stretch ends. */
static ebb_status compare_pieces(checker *c, ir_val v, window w, int64_t stretch, bool *holds) {
    uint64_t size = ebb__ir_dtype_bytes(c->g->values[v].type.dtype);
    for (int64_t r = 0; r < w.rows; r++) {
        for (int64_t done = 0, n; done < w.cols && *holds; done += n) {
            int64_t first = w.first + r * w.step + done, left = stretch - first % stretch;
            n = left < w.cols - done ? left : w.cols - done;
            window part = {.first = first,
                           .step = n,
                           .rows = 1,
                           .cols = n,
                           .address = w.address + (uint64_t)(r * w.ld + done) * size,
                           .ld = n};
            TRY(compare(c, v, part, holds));
        }
    }
    return EBB_OK;
}

/* Compares a window of any value: views are followed to what nodes wrote. */
static ebb_status compare(checker *c, ir_val v, window w, bool *holds) {
    const ir_graph *g = c->g;
    ir_node def = g->values[v].def;
    op_part part = {0};
    if (def == IR_NONE || !ebb__op_next_part(g, &g->nodes[def], &part)) {
        return apply_window(c, v, &w, false, holds);
    }
    bool slice = part.piece == v;
    int64_t stretch = (slice ? part.len : part.extent) * part.inner;
    bool one = w.first % stretch + (w.rows - 1) * w.step + w.cols <= stretch;
    bool alike = w.first % stretch + w.cols <= stretch && (w.rows == 1 || w.step % stretch == 0);
    if (!one && !alike) {
        return compare_pieces(c, v, w, stretch, holds);
    }
    if (!slice) {
        return w.rows == 1 || !one
                   ? compare_row(c, &g->nodes[def], &part, w, w.step / stretch, holds)
                   : compare_rows(c, &g->nodes[def], &part, w, holds);
    }
    w.first = op_part_element(&part, w.first);
    w.step = one ? w.step : w.step / stretch * part.extent * part.inner;
    return compare(c, part.whole, w, holds);
}

/* What has no gaps is one row. */
static window whole(const checker *c, ir_val v) {
    const ir_type *type = &c->g->values[v].type;
    int64_t cols = ebb__op_fold_cols(type, pass_fold(c->unit, v));
    if (c->p->ld[v] == cols) {
        int64_t all = ebb__op_fold_cols(type, 0);
        return (window){
            .step = all, .rows = 1, .cols = all, .address = plan_value_address(c->p, v), .ld = all};
    }
    return (window){.step = cols,
                    .rows = ebb__op_fold_cols(type, 0) / cols,
                    .cols = cols,
                    .address = plan_value_address(c->p, v),
                    .ld = c->p->ld[v]};
}

static ebb_status must_hold(checker *c, ir_val v, ir_val content, const char *what) {
    bool holds = true;
    if (c->p->block[v] < 0) {
        return refuse(c, "no address", v);
    }
    window w = whole(c, v);
    TRY(compare(c, content, w, &holds));
    return holds ? EBB_OK : refuse(c, what, v);
}

/* ---- a node's own operands and results ---- */

typedef struct extent {
    uint64_t lo, hi;
} extent;

static extent extent_of(const checker *c, ir_val v) {
    window w = whole(c, v);
    uint64_t size = ebb__ir_dtype_bytes(c->g->values[v].type.dtype);
    return (extent){w.address, w.address + (uint64_t)((w.rows - 1) * w.ld + w.cols) * size};
}

static bool meet(extent a, extent b) {
    return a.lo < b.hi && b.lo < a.hi;
}

static bool in_place_allowed(const checker *c, const ir_node_rec *node, int32_t k, int32_t j) {
    const op_def *def = ebb__op(node->op);
    ir_val x = ir_in(c->g, node, k), out = node->out + j;
    bool same = plan_value_address(c->p, x) == plan_value_address(c->p, out) &&
                c->p->ld[x] == c->p->ld[out] &&
                ebb__op_begins_with(node, &c->g->values[out].type, &c->g->values[x].type);
    for (int32_t p = 0; p < def->n_inplace && same; p++) {
        ir_val pair = ir_in(c->g, node, def->inplace[p].in);
        if (def->inplace[p].out == j &&
            (def->inplace[p].in == k || (pair == x && (def->flags & OPF_ELEMENTWISE) != 0))) {
            return true;
        }
    }
    return false;
}

/* Do the rows of a and b share no byte, although their extents meet? Columns of one block (concat
 * operands) lie interleaved, and a small value may lie in the gap between two rows. */
static bool interleaved(const checker *c, ir_val a, ir_val b) {
    window wa = whole(c, a), wb = whole(c, b);
    uint64_t size_a = ebb__ir_dtype_bytes(c->g->values[a].type.dtype);
    uint64_t size_b = ebb__ir_dtype_bytes(c->g->values[b].type.dtype);
    uint64_t step_b = (uint64_t)wb.ld * size_b, len_b = (uint64_t)wb.cols * size_b;
    for (int64_t r = 0; r < wa.rows; r++) {
        uint64_t lo = wa.address + (uint64_t)(r * wa.ld) * size_a;
        uint64_t hi = lo + (uint64_t)wa.cols * size_a;
        /* The first row of b that ends behind lo must begin at hi or later. */
        uint64_t row = lo < wb.address + len_b ? 0 : (lo - wb.address - len_b) / step_b + 1;
        if (row < (uint64_t)wb.rows && wb.address + row * step_b < hi) {
            return false;
        }
    }
    return true;
}

/* What the kernel will be told, which must be at least what it asks for. */
static ebb_status find_scratch(const checker *c, const ir_node_rec *node, ir_node n, extent *work) {
    int32_t scratch = c->p->scratch[n], k = c->unit->kernels[n];
    const device_kernel *kernel = k >= 0 ? &c->unit->dev->kernels[k] : NULL;
    size_t need = kernel == NULL || kernel->workspace == NULL
                      ? 0
                      : kernel->workspace(c->g, node, c->unit->forms[n], c->unit->config->members);
    *work = (extent){0, 0};
    if (need > c->unit->workspace[n] || (need > 0 && scratch < 0)) {
        return refuse(c, "too little scratch", IR_NONE);
    }
    if (scratch >= 0) {
        uint64_t base = plan_block_address(c->p, scratch);
        *work = (extent){base, base + c->unit->workspace[n]};
        if (work->hi > c->arena_bytes) {
            return refuse(c, "scratch outside the arena", IR_NONE);
        }
    }
    return EBB_OK;
}

static ebb_status check_overlap(const checker *c, const ir_node_rec *node, ir_node n) {
    extent work;
    TRY(find_scratch(c, node, n, &work));
    for (int32_t j = 0; j < node->n_out; j++) {
        ir_val out = node->out + j;
        extent mine = extent_of(c, out);
        if (meet(mine, work)) {
            return refuse(c, "scratch over a result", out);
        }
        for (int32_t i = 0; i < j; i++) {
            if (meet(mine, extent_of(c, node->out + i)) && !interleaved(c, out, node->out + i)) {
                return refuse(c, "two results in the same bytes", out);
            }
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val x = ir_in(c->g, node, k);
            if (x != IR_NONE && meet(mine, extent_of(c, x)) && !interleaved(c, out, x) &&
                !in_place_allowed(c, node, k, j)) {
                return refuse(c, "result written over an operand", x);
            }
        }
    }
    for (int32_t k = 0; k < node->n_in; k++) {
        if (ir_in(c->g, node, k) != IR_NONE && meet(work, extent_of(c, ir_in(c->g, node, k)))) {
            return refuse(c, "scratch over an operand", ir_in(c->g, node, k));
        }
    }
    return EBB_OK;
}

/* ---- runs: nodes that members carry out without meeting in between ---- */

/* What a node of a run touches: a value, or scratch (IR_NONE). */
typedef struct touch {
    extent bytes;
    ir_val value;
    bool written, by_units;
} touch;

enum { MOST_OPERANDS = 12, MOST_TOUCHES = MOST_OPERANDS + IR_MAX_OUT + 1 };

static int32_t touches_of(const checker *c, ir_node n, touch *list) {
    const ir_node_rec *node = &c->g->nodes[n];
    uint32_t whole = ~0U;
    int32_t count = 0;
    if (ebb__op(node->op)->units != NULL) {
        (void)ebb__op(node->op)->units(c->g, node, &whole);
    }
    for (int32_t k = 0; k < node->n_in && k < MOST_OPERANDS; k++) {
        ir_val x = ir_in(c->g, node, k);
        if (x != IR_NONE) {
            list[count++] = (touch){extent_of(c, x), x, false, (whole >> k & 1) == 0};
        }
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        list[count++] = (touch){extent_of(c, node->out + k), node->out + k, true, true};
    }
    if (c->p->scratch[n] >= 0) {
        uint64_t lo = plan_block_address(c->p, c->p->scratch[n]);
        list[count++] = (touch){{lo, lo + c->unit->workspace[n]}, IR_NONE, true, false};
    }
    return count;
}

/* One member may be at `a` while another is at `b`. */
static bool may_coexist(const checker *c, const touch *a, const touch *b, int32_t units) {
    if (!meet(a->bytes, b->bytes) || !(a->written || b->written)) {
        return true;
    }
    if (a->value == IR_NONE || b->value == IR_NONE) {
        return false;
    }
    uint64_t apart =
        a->bytes.lo > b->bytes.lo ? a->bytes.lo - b->bytes.lo : b->bytes.lo - a->bytes.lo;
    int64_t ld = c->p->ld[a->value];
    const ir_type *type = &c->g->values[a->value].type;
    bool same_units = a->by_units && b->by_units && c->p->ld[b->value] == ld;
    if (op_is_map(type)) { /* rows of pixels without gaps */
        same_units = same_units && apart == 0 && ld == ir_cols(type) &&
                     ebb__ir_type_equal(type, &c->g->values[b->value].type);
    } else {
        same_units = same_units && apart / sizeof(float) % (uint64_t)ld % (uint64_t)units == 0;
    }
    return same_units || interleaved(c, a->value, b->value);
}

static ebb_status check_run(checker *c, const ir_node *run, int32_t n) {
    uint32_t unused;
    for (int32_t i = 1; i < n; i++) {
        const op_def *def = ebb__op(c->g->nodes[run[i]].op);
        touch mine[MOST_TOUCHES], other[MOST_TOUCHES];
        int32_t n_mine = touches_of(c, run[i], mine);
        c->node = run[i];
        int32_t units = def->units == NULL ? 0 : def->units(c->g, &c->g->nodes[run[i]], &unused);
        if (units <= 0 || def->unit_rows || c->g->nodes[run[i]].n_in > MOST_OPERANDS) {
            return refuse(c, "a node without units in a run: result", c->g->nodes[run[i]].out);
        }
        for (int32_t j = 0; j < i; j++) {
            int32_t n_other = touches_of(c, run[j], other);
            for (int32_t k = 0; k < n_mine * n_other; k++) {
                if (!may_coexist(c, &mine[k / n_other], &other[k % n_other], units)) {
                    return refuse(c, "members would disturb each other in a run: bytes",
                                  mine[k / n_other].value);
                }
            }
        }
    }
    return EBB_OK;
}

/* As many members as there are, the same in all of a run; a reference knows nothing of shares. */
static ebb_status check_members(checker *c, ir_node first, ir_node n) {
    const pass_share *shares = c->unit->shares;
    int32_t members = shares == NULL ? 1 : shares[n].members;
    bool alone = c->unit->kernels[n] == DEVICE_KERNEL_REFERENCE;
    c->node = n;
    return members < 1 || members > (alone ? 1 : c->unit->config->members) ||
                   (shares != NULL && shares[first].members != members)
               ? refuse(c, "members that cannot take part: result", c->g->nodes[n].out)
               : EBB_OK;
}

static ebb_status check_runs(checker *c) {
    ir_node run[DEVICE_MAX_RUN];
    int32_t n = 0;
    for (int32_t i = 0; i < c->g->n_order; i++) {
        ir_node node = c->g->order[i];
        if (c->unit->kernels[node] == DEVICE_KERNEL_NONE) {
            continue;
        }
        if (!pass_joined(c->unit, node)) {
            TRY(check_run(c, run, n));
            n = 0;
        }
        if (n == DEVICE_MAX_RUN) {
            return refuse(c, "too long a run: result", c->g->nodes[node].out);
        }
        run[n++] = node;
        TRY(check_members(c, run[0], node));
    }
    return check_run(c, run, n);
}

/* ---- replay ---- */

/* Whether kernels of the node's op can read or write a value as it lies: rows without gaps always,
 * others as the op's layout says. */
static bool lies_well(const checker *c, const ir_node_rec *node, ir_val v) {
    const op_def *op = ebb__op(node->op);
    const ir_type *type = &c->g->values[v].type;
    int32_t fold = pass_fold(c->unit, v);
    if (ebb__op_is_gapless(type, (op_lay){.fold = (int16_t)fold, .ld = c->p->ld[v]})) {
        return true;
    }
    return op->layout == LAYOUT_FOLDED ||
           (op->layout != LAYOUT_DENSE && fold == ebb__op_rows_axes(op, type));
}

static ebb_status replay_node(checker *c, ir_node n) {
    const ir_graph *g = c->g;
    const ir_node_rec *node = &g->nodes[n];
    bool unused = true;
    c->node = n;
    if ((ebb__op(node->op)->flags & OPF_ALIAS) != 0) {
        return EBB_OK;
    }
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val x = ir_in(g, node, k);
        if (x != IR_NONE && is_away(c, x) != (ebb__op(node->op)->transfer == TRANSFER_BACK)) {
            return refuse(c, "an operand on the wrong side of the arena's end: bytes", x);
        }
        if (x != IR_NONE) {
            TRY(must_hold(c, x, x, "operand overwritten or never written: bytes"));
        }
        /* What is to be there before a message is received is not read. */
        bool read = ebb__op(node->op)->message != MESSAGE_RECV;
        if (x != IR_NONE && read && !lies_well(c, node, x)) {
            return refuse(c, "gaps between rows", x);
        }
    }
    for (int32_t j = 0; j < node->n_out; j++) {
        if (c->p->block[node->out + j] < 0) {
            return refuse(c, "no address", node->out + j);
        }
        if (!lies_well(c, node, node->out + j)) {
            return refuse(c, "gaps between rows", node->out + j);
        }
    }
    TRY(check_overlap(c, node, n));
    if (c->p->scratch[n] >= 0) { /* scratch destroys what was there */
        uint64_t lo = plan_block_address(c->p, c->p->scratch[n]);
        tag t = {.lo = lo, .hi = lo + c->unit->workspace[n], .value = IR_NONE};
        TRY(apply(c, t, true, &unused));
    }
    for (int32_t j = 0; j < node->n_out; j++) {
        window w = whole(c, node->out + j);
        TRY(apply_window(c, node->out + j, &w, true, &unused));
    }
    return EBB_OK;
}

static ebb_status replay(checker *c) {
    const ir_graph *g = c->g;
    bool unused = true;
    c->node = IR_NONE;
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].role != IR_TEMP) {
            window w = whole(c, v);
            TRY(apply_window(c, v, &w, true, &unused));
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) { /* variables do not overlap each other */
        if (g->values[v].role != IR_TEMP) {
            TRY(must_hold(c, v, v, "variable over a variable: bytes"));
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        TRY(replay_node(c, g->order[i]));
    }
    c->node = IR_NONE;
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        if (value->role != IR_TEMP) {
            ir_val content = value->next != IR_NONE ? value->next : v;
            TRY(must_hold(c, v, content, "wrong next value in the bytes"));
        } else if (value->output && c->p->block[v] >= 0) {
            TRY(must_hold(c, v, v, "output overwritten: bytes"));
        }
    }
    return EBB_OK;
}

ebb_status ebb__plan_check(pass_unit *unit, uint64_t arena_bytes) {
    checker c = {.unit = unit, .g = &unit->graph, .p = unit->placement, .arena_bytes = arena_bytes};
    ebb_status status;
    ebb__region_init(&c.region, unit->ctx);
    uint64_t end = arena_bytes;
    if (c.p->away_bytes > 0) {
        c.away_end = end = c.p->away_base + c.p->away_bytes;
    }
    c.bucket_bytes = end / 4096 + 4096;
    c.n_buckets = (size_t)(end / c.bucket_bytes + 1);
    if (c.p->away_bytes > 0 && c.p->away_base < arena_bytes) {
        TRY_OUT(ebb__fail(unit->ctx, EBB_INTERNAL, "verify: what is away begins inside the arena"));
    }
    TRY_OUT(ebb__region_alloc(&c.region, c.n_buckets, sizeof *c.buckets, &c.buckets));
    TRY_OUT(find_starts(&c));
    TRY_OUT(replay(&c));
    TRY_OUT(check_runs(&c));
out:
    ebb__region_fini(&c.region);
    return status;
}

static ebb_status run(pass_unit *unit) {
    return ebb__plan_check(unit,
                           unit->placement->transient_base + unit->placement->transient_bytes);
}

const pass_def ebb__pass_verify = {.id = PASS_VERIFY, .run = run};
