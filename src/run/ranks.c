/* ranks.c - see ranks.h. An order is one small message to a rank; bytes that belong to it follow in
 * messages of their own. */
#include "run/ranks.h"

#include "comm/comm.h"
#include "grad/update.h"
#include "run/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TAG_ORDER = COMM_FIRST_TAG, TAG_DATA };
_Static_assert(TAG_DATA < COMM_FIRST_TAG + (int)RANKS_TAGS, "tags of orders");

typedef enum order_kind {
    ORDER_STEP,  /* runs a program; then the inputs come */
    ORDER_ZERO,  /* of a role */
    ORDER_DRAW,  /* with a seed */
    ORDER_MEANS, /* see each_average */
    ORDER_READ,  /* sends bytes of a variable */
    ORDER_WRITE, /* receives them */
    ORDER_SERVE, /* what nobody here knows of: run_session.serve */
    ORDER_END,   /* with a status */
} order_kind;

typedef struct run_order {
    int32_t what;
    int32_t index; /* of the program, role or variable; of averages: whether both change places */
    /* Of the variable. Else from: the seed; both: run_session.at_step and saved_step. */
    uint64_t from, bytes;
} run_order;

/* A variable as its rank tells of it. */
typedef struct told_variable {
    ir_type type;
    int32_t role, first_row, all_rows;
    int32_t name; /* where it begins in the rank's names */
} told_variable;

/* What a rank has: [n] variables that are stored, by their numbers. */
typedef struct told_rank {
    told_variable *variables;
    char *names;
    int32_t n;
} told_rank;

struct run_ranks {
    told_rank *told; /* by rank; the leader's own is empty */
};

/* ---- messages ---- */

static int size_of(const run_session *s) {
    return s->link != NULL && s->ranks != NULL ? ebb__comm_size(s->link) : 1;
}

static ebb_status send_to(run_session *s, int rank, int tag, const void *data, size_t bytes) {
    return ebb__comm_put(s->link, rank, tag, data, bytes, s->lost_seconds);
}

static ebb_status receive_from(run_session *s, int rank, int tag, void *data, size_t bytes) {
    return ebb__comm_take(s->link, rank, tag, data, bytes, s->lost_seconds);
}

static ebb_status order_all(run_session *s, run_order order) {
    for (int rank = 1; rank < size_of(s); rank++) {
        TRY(send_to(s, rank, TAG_ORDER, &order, sizeof order));
    }
    return EBB_OK;
}

/* Sends the place to a rank or, where it is mapped to be written, receives it from there. */
static ebb_status move_place(run_session *s, run_place place, unsigned access, int rank) {
    bool in = (access & DEVICE_WRITE) != 0;
    void *data = NULL;
    TRY(ebb__run_map(s, place, access, &data));
    ebb_status status = in ? receive_from(s, rank, TAG_DATA, data, (size_t)place.bytes)
                           : send_to(s, rank, TAG_DATA, data, (size_t)place.bytes);
    ebb_status closed = ebb__run_unmap(s, place, access, data);
    return status == EBB_OK ? closed : status;
}

/* ---- who has what ---- */

/* What programs have that the rank runs for itself is its own. */
static bool is_told(const plan_variable *v) {
    return !v->extra && v->role != IR_SCRATCH && v->shared;
}

/* The messages of a follower: sizes, then what they are of. */
static ebb_status tell(run_session *s) {
    const ebb_plan *plan = s->plan;
    alloc_region region;
    told_variable *list = NULL;
    char *names = NULL;
    int32_t sizes[2] = {plan->n_variables, 1};
    ebb_status status;
    ebb__region_init(&region, s->ctx);
    for (int32_t i = 0; i < plan->n_variables; i++) {
        sizes[1] += (int32_t)strlen(plan->variables[i].name) + 1;
    }
    TRY_OUT(ebb__region_alloc(&region, (size_t)sizes[0] + 1, sizeof *list, &list));
    TRY_OUT(ebb__region_alloc(&region, (size_t)sizes[1], 1, &names));
    for (int32_t i = 0, at = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        size_t bytes = strlen(v->name) + 1;
        list[i] = (told_variable){v->type, is_told(v) ? (int32_t)v->role : -1, v->first_row,
                                  v->all_rows, at};
        memcpy(names + at, v->name, bytes);
        at += (int32_t)bytes;
    }
    TRY_OUT(send_to(s, 0, TAG_DATA, sizes, sizeof sizes));
    TRY_OUT(send_to(s, 0, TAG_DATA, list, (size_t)sizes[0] * sizeof *list));
    TRY_OUT(send_to(s, 0, TAG_DATA, names, (size_t)sizes[1]));
out:
    ebb__region_fini(&region);
    return status;
}

static ebb_status listen(run_session *s, int rank) {
    told_rank *t = &s->ranks->told[rank];
    int32_t sizes[2];
    TRY(receive_from(s, rank, TAG_DATA, sizes, sizeof sizes));
    TRY(ebb__alloc(s->ctx, (size_t)sizes[0] + 1, sizeof *t->variables, &t->variables));
    TRY(ebb__alloc(s->ctx, (size_t)sizes[1], 1, &t->names));
    t->n = sizes[0];
    TRY(receive_from(s, rank, TAG_DATA, t->variables, (size_t)t->n * sizeof *t->variables));
    return receive_from(s, rank, TAG_DATA, t->names, (size_t)sizes[1]);
}

ebb_status ebb__ranks_lead(run_session *session) {
    int size = session->link != NULL ? ebb__comm_size(session->link) : 1;
    if (size == 1) {
        return EBB_OK;
    }
    TRY(ebb__alloc(session->ctx, 1, sizeof *session->ranks, &session->ranks));
    TRY(ebb__alloc(session->ctx, (size_t)size, sizeof *session->ranks->told,
                   &session->ranks->told));
    for (int rank = 1; rank < size; rank++) {
        TRY(listen(session, rank));
    }
    return EBB_OK;
}

void ebb__ranks_free(run_session *session) {
    struct run_ranks *ranks = session->ranks;
    for (int rank = 1; ranks != NULL && ranks->told != NULL && rank < size_of(session); rank++) {
        ebb__free(session->ctx, ranks->told[rank].variables);
        ebb__free(session->ctx, ranks->told[rank].names);
    }
    if (ranks != NULL) {
        ebb__free(session->ctx, ranks->told);
        ebb__free(session->ctx, ranks);
    }
    session->ranks = NULL;
}

/* ---- proof ---- */

/* Of what a rank has to tell of its lists. */
typedef struct told_messages {
    int32_t programs; /* that are shared */
    int32_t messages; /* of the one that is next */
} told_messages;

static ebb_status tell_messages(run_session *s, const plan_messages *list, int32_t programs) {
    told_messages told = {programs, list->n};
    TRY(send_to(s, 0, TAG_DATA, &told, sizeof told));
    return send_to(s, 0, TAG_DATA, list->at, (size_t)list->n * sizeof *list->at);
}

static ebb_status hear_messages(run_session *s, int rank, int32_t programs, plan_messages *out) {
    told_messages told = {0};
    TRY(receive_from(s, rank, TAG_DATA, &told, sizeof told));
    if (told.programs != programs) {
        return ebb__fail(s->ctx, EBB_INTERNAL, "rank %d shares %d programs, rank 0 %d", rank,
                         told.programs, programs);
    }
    TRY(ebb__alloc(s->ctx, (size_t)told.messages, sizeof *out->at, &out->at));
    out->n = told.messages;
    return receive_from(s, rank, TAG_DATA, out->at, (size_t)out->n * sizeof *out->at);
}

/* Fails only where the lists cannot be had. */
static ebb_status prove_program(run_session *s, const plan_program *program, int32_t programs,
                                ebb_status *verdict) {
    int size = ebb__comm_size(s->link);
    plan_messages *lists = NULL;
    ebb_status status = EBB_OK;
    TRY(ebb__alloc(s->ctx, (size_t)size, sizeof *lists, &lists));
    for (int rank = 1; rank < size; rank++) {
        TRY_OUT(hear_messages(s, rank, programs, &lists[rank]));
    }
    lists[0] = program->messages;
    *verdict = ebb__plan_prove_messages(s->ctx, program->name, lists, size);
out:
    for (int rank = 1; rank < size; rank++) {
        ebb__free(s->ctx, lists[rank].at);
    }
    ebb__free(s->ctx, lists);
    return status;
}

/* Another program of the same step has the same messages, so that it need not be proved: one rank
 * may have it and others not. */
static ebb_status check_fallback(run_session *s, const plan_program *program) {
    const plan_messages *own = &program->messages;
    const plan_messages *other = &s->plan->programs[program->fallback].messages;
    bool same = own->n == other->n;
    for (int32_t i = 0; same && i < own->n; i++) {
        const plan_message *a = &own->at[i], *b = &other->at[i];
        same = a->kind == b->kind && a->peer == b->peer && a->tag == b->tag &&
               a->value == b->value && a->dtype == b->dtype && a->start == b->start &&
               a->bytes == b->bytes;
    }
    return same ? EBB_OK
                : ebb__fail(s->ctx, EBB_INTERNAL, "programs %s and %s have other messages",
                            program->name, s->plan->programs[program->fallback].name);
}

/* Of the programs that ranks share, those that all have. */
static bool is_proved(const ebb_plan *plan, int32_t index) {
    bool fallback = false;
    for (int32_t i = 0; i < plan->n_programs; i++) {
        fallback = fallback || plan->programs[i].fallback == index;
    }
    return plan->programs[index].shared && (index == 0 || !fallback);
}

ebb_status ebb__ranks_prove(run_session *session) {
    ebb_plan *plan = session->plan;
    int32_t shared = 0;
    if (session->link == NULL || ebb__comm_size(session->link) == 1) {
        return EBB_OK;
    }
    for (int32_t i = 0; i < plan->n_programs; i++) {
        shared += is_proved(plan, i);
    }
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const plan_program *program = &plan->programs[i];
        ebb_status verdict = EBB_OK;
        if (is_proved(plan, i)) {
            TRY(ebb__comm_rank(session->link) == 0
                    ? prove_program(session, program, shared, &verdict)
                    : tell_messages(session, &program->messages, shared));
            if (program->fallback > 0 && verdict == EBB_OK) {
                verdict = check_fallback(session, program);
            }
            TRY(ebb__comm_agree(session->link, verdict, session->lost_seconds));
        }
    }
    ebb__plan_drop_messages(plan);
    return EBB_OK;
}

/* ---- tensors ---- */

/* Adds what a rank has of a tensor, which is the list's last if it is there. */
static ebb_status add_part(alloc_region *region, int most, const told_variable *v, const char *name,
                           ranks_part part, ranks_tensor *list, int32_t *n) {
    ranks_tensor *t = list;
    while (t < list + *n && strcmp(t->name, name) != 0) {
        t++;
    }
    if (t == list + *n) {
        *t = (ranks_tensor){.name = name, .type = v->type, .role = (ir_role)v->role};
        if (v->all_rows > 0) {
            t->type.dim[0] = v->all_rows;
        }
        t->bytes = ebb__ir_type_bytes(&t->type);
        TRY(ebb__region_alloc(region, (size_t)most, sizeof *t->parts, &t->parts));
        (*n)++;
    }
    part.bytes = ebb__ir_type_bytes(&v->type);
    part.from = part.bytes / (uint64_t)v->type.dim[0] * (uint64_t)v->first_row;
    t->parts[t->n_parts++] = part;
    return EBB_OK;
}

ebb_status ebb__ranks_tensors(run_session *session, uint32_t roles, alloc_region *region,
                              ranks_tensor **out, int32_t *n) {
    const ebb_plan *plan = session->plan;
    int size = size_of(session);
    size_t most = (size_t)plan->n_variables + 1;
    ranks_tensor *list = NULL;
    for (int rank = 1; rank < size; rank++) {
        most += (size_t)session->ranks->told[rank].n;
    }
    TRY(ebb__region_alloc(region, most, sizeof *list, &list));
    *n = 0;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        told_variable own = {v->type, (int32_t)v->role, v->first_row, v->all_rows, 0};
        if (tensors_is_stored(v, roles) && (size == 1 || v->shared)) {
            TRY(add_part(region, size, &own, v->name, (ranks_part){.rank = 0, .variable = i}, list,
                         n));
        }
    }
    for (int rank = 1; rank < size; rank++) {
        const told_rank *t = &session->ranks->told[rank];
        for (int32_t i = 0; i < t->n; i++) {
            const told_variable *v = &t->variables[i];
            if (v->role >= 0 && (roles & (1U << v->role)) != 0) {
                TRY(add_part(region, size, v, t->names + v->name,
                             (ranks_part){.rank = rank, .variable = i}, list, n));
            }
        }
    }
    *out = list;
    return EBB_OK;
}

/* The first part that has the byte. */
static const ranks_part *part_at(const ranks_tensor *t, uint64_t from) {
    int32_t i = 0;
    while (i < t->n_parts &&
           (from < t->parts[i].from || from >= t->parts[i].from + t->parts[i].bytes)) {
        i++;
    }
    return i < t->n_parts ? &t->parts[i] : NULL;
}

/* Of a variable of the leader's own. */
static run_place place_of(const run_session *s, const ranks_part *part, uint64_t from) {
    run_place all = run_at(&s->plan->variables[part->variable]);
    return run_part(all, from - part->from, all.bytes - (from - part->from));
}

static void *room_of(run_session *s) {
    uint64_t bytes;
    return ebb__run_host(s, RANKS_ROOM, &bytes);
}

ebb_status ebb__ranks_open(run_session *session, const ranks_tensor *tensor, uint64_t from,
                           const void **data, uint64_t *bytes) {
    const ranks_part *part = part_at(tensor, from);
    if (part == NULL) {
        return ebb__fail(session->ctx, EBB_INTERNAL, "no rank has byte %llu of %s",
                         (unsigned long long)from, tensor->name);
    }
    uint64_t left = part->from + part->bytes - from;
    if (part->rank == 0) {
        *bytes = left;
        return ebb__run_map(session, place_of(session, part, from), DEVICE_READ, data);
    }
    *bytes = left < RANKS_ROOM_BYTES ? left : RANKS_ROOM_BYTES;
    *data = room_of(session);
    run_order order = {ORDER_READ, part->variable, from - part->from, *bytes};
    TRY(send_to(session, part->rank, TAG_ORDER, &order, sizeof order));
    return receive_from(session, part->rank, TAG_DATA, room_of(session), (size_t)*bytes);
}

ebb_status ebb__ranks_close(run_session *session, const ranks_tensor *tensor, uint64_t from,
                            const void *data) {
    const ranks_part *part = part_at(tensor, from);
    return part == NULL || part->rank > 0
               ? EBB_OK
               : ebb__run_unmap(session, place_of(session, part, from), DEVICE_READ, data);
}

static ebb_status write_own(run_session *s, const ranks_part *part, ranks_read read, void *user) {
    void *data = NULL;
    run_place place = place_of(s, part, part->from);
    TRY(ebb__run_map(s, place, DEVICE_WRITE, &data));
    ebb_status status = read(user, part->from, data, (size_t)part->bytes);
    ebb_status closed = ebb__run_unmap(s, place, DEVICE_WRITE, data);
    return status == EBB_OK ? closed : status;
}

ebb_status ebb__ranks_write(run_session *session, const ranks_tensor *tensor, ranks_read read,
                            void *user) {
    session->copies_fresh = false;
    for (int32_t i = 0; i < tensor->n_parts; i++) {
        const ranks_part *part = &tensor->parts[i];
        if (part->rank == 0) {
            TRY(write_own(session, part, read, user));
            continue;
        }
        for (uint64_t at = 0; at < part->bytes; at += RANKS_ROOM_BYTES) {
            uint64_t left = part->bytes - at;
            uint64_t bytes = left < RANKS_ROOM_BYTES ? left : RANKS_ROOM_BYTES;
            run_order order = {ORDER_WRITE, part->variable, at, bytes};
            TRY(read(user, part->from + at, room_of(session), (size_t)bytes));
            TRY(send_to(session, part->rank, TAG_ORDER, &order, sizeof order));
            TRY(send_to(session, part->rank, TAG_DATA, room_of(session), (size_t)bytes));
        }
    }
    return EBB_OK;
}

/* ---- orders that every rank carries out ---- */

static ebb_status zero(run_session *s, int32_t role) {
    for (int32_t i = 0; i < s->plan->n_variables; i++) {
        const plan_variable *v = &s->plan->variables[i];
        if ((int32_t)v->role == role && !v->extra) {
            TRY(ebb__run_zero(s, run_at(v)));
        }
    }
    return EBB_OK;
}

static ebb_status draw(run_session *s, uint64_t seed) {
    for (int32_t i = 0; i < s->plan->n_variables; i++) {
        const plan_variable *v = &s->plan->variables[i];
        if (tensors_is_stored(v, TENSORS_MODEL)) {
            float *data = NULL;
            uint64_t count = v->bytes / sizeof *data;
            uint64_t first = count / (uint64_t)v->type.dim[0] * (uint64_t)v->first_row;
            TRY(ebb__run_map(s, run_at(v), DEVICE_WRITE, &data));
            ebb__ir_draw(v->start, v->name, seed, data, first, count);
            TRY(ebb__run_unmap(s, run_at(v), DEVICE_WRITE, data));
        }
    }
    return EBB_OK;
}

ebb_status ebb__ranks_zero(run_session *session, ir_role role) {
    TRY(order_all(session, (run_order){ORDER_ZERO, (int32_t)role, 0, 0}));
    return zero(session, (int32_t)role);
}

ebb_status ebb__ranks_draw(run_session *session, uint64_t seed) {
    session->copies_fresh = false;
    TRY(order_all(session, (run_order){ORDER_DRAW, 0, seed, 0}));
    return draw(session, seed);
}

/* ---- averages ---- */

static void swap_bytes(char *a, char *b, uint64_t bytes) {
    char kept[4096];
    for (uint64_t at = 0, part; at < bytes; at += part) {
        part = bytes - at < sizeof kept ? bytes - at : sizeof kept;
        memcpy(kept, a + at, part);
        memcpy(a + at, b + at, part);
        memcpy(b + at, kept, part);
    }
}

static ebb_status with_average(run_session *s, run_place mean, run_place own, bool swap) {
    const run_place places[] = {own, mean};
    void *at[2];
    TRY(ebb__run_map_all(s, places, 2, DEVICE_READ | DEVICE_WRITE, at));
    if (swap) {
        swap_bytes(at[0], at[1], own.bytes);
    } else {
        memcpy(at[1], at[0], own.bytes);
    }
    return ebb__run_unmap_all(s, places, 2, DEVICE_READ | DEVICE_WRITE, at);
}

/* Whoever has a parameter, or rows of it, has their average too. */
static ebb_status each_average(run_session *s, bool swap) {
    static const char prefix[] = UPDATE_AVERAGE ".";
    s->copies_fresh = false;
    for (int32_t i = 0; i < s->plan->n_variables; i++) {
        const plan_variable *v = &s->plan->variables[i];
        if (v->role != IR_SLOT || strncmp(v->name, prefix, sizeof prefix - 1) != 0) {
            continue;
        }
        run_place own = ebb__run_find(s, v->name + sizeof prefix - 1);
        if (own.bytes != v->bytes) {
            return ebb__fail(s->ctx, EBB_INTERNAL, "%s is the average of no parameter", v->name);
        }
        TRY(with_average(s, run_at(v), own, swap));
    }
    return EBB_OK;
}

ebb_status ebb__ranks_start_averages(run_session *session) {
    TRY(order_all(session, (run_order){ORDER_MEANS, false, 0, 0}));
    return each_average(session, false);
}

ebb_status ebb__ranks_swap_averages(run_session *session) {
    TRY(order_all(session, (run_order){ORDER_MEANS, true, 0, 0}));
    return each_average(session, true);
}

/* ---- what is written before each step ---- */

/* Those that the follower has, in its order: the leader has more, of programs of its own. */
static ebb_status send_inputs(run_session *s, int to) {
    const told_rank *t = &s->ranks->told[to];
    for (int32_t i = 0; i < t->n; i++) {
        const char *name = t->names + t->variables[i].name;
        if (t->variables[i].role != IR_INPUT) {
            continue;
        }
        const plan_variable *v = ebb__plan_variable(s->plan, name);
        if (v == NULL) {
            return ebb__fail(s->ctx, EBB_INTERNAL, "rank %d reads %s, which rank 0 has not", to,
                             name);
        }
        /* An input has room for the largest that a program reads: the leader's own may read more.
         */
        uint64_t bytes = ebb__ir_type_bytes(&t->variables[i].type);
        TRY(move_place(s, run_part(run_at(v), 0, bytes), DEVICE_READ, to));
    }
    return EBB_OK;
}

static ebb_status receive_inputs(run_session *s) {
    for (int32_t i = 0; i < s->plan->n_variables; i++) {
        const plan_variable *v = &s->plan->variables[i];
        TRY(v->role == IR_INPUT && is_told(v) ? move_place(s, run_at(v), DEVICE_WRITE, 0) : EBB_OK);
    }
    return EBB_OK;
}

ebb_status ebb__ranks_step(run_session *session, int32_t index) {
    TRY(order_all(session, (run_order){ORDER_STEP, index, (uint64_t)session->at_step,
                                       (uint64_t)session->saved_step}));
    for (int rank = 1; rank < size_of(session); rank++) {
        TRY(send_inputs(session, rank));
    }
    return EBB_OK;
}

ebb_status ebb__ranks_check(run_session *session) {
    return session->link != NULL ? ebb__comm_poll(session->link) : EBB_OK;
}

/* ---- copies ---- */

static ebb_status copy_tensor(run_session *s, const ranks_tensor *tensor, const plan_variable *v) {
    for (uint64_t at = 0, bytes = 0; at < tensor->bytes; at += bytes) {
        const void *data = NULL;
        TRY(ebb__ranks_open(s, tensor, at, &data, &bytes));
        ebb_status status = ebb__run_write(s, run_part(run_at(v), at, bytes), data);
        ebb_status closed = ebb__ranks_close(s, tensor, at, data);
        TRY(status == EBB_OK ? closed : status);
    }
    return EBB_OK;
}

/* The leader's copy of a tensor, which it may have beside a part that it shares; NULL: none. */
static const plan_variable *find_copy(const ebb_plan *plan, const char *name) {
    const plan_variable *v = ebb__plan_variable(plan, name);
    char whole[512];
    if (v == NULL || v->shared) {
        (void)snprintf(whole, sizeof whole, PASS_WHOLE "%s", name);
        v = ebb__plan_variable(plan, whole);
    }
    return v;
}

static ebb_status copy_tensors(run_session *s, alloc_region *region) {
    ranks_tensor *list = NULL;
    int32_t n = 0;
    TRY(ebb__ranks_tensors(s, TENSORS_MODEL, region, &list, &n));
    for (int32_t i = 0; i < n; i++) {
        const plan_variable *v = find_copy(s->plan, list[i].name);
        if (v != NULL) {
            TRY(copy_tensor(s, &list[i], v));
        }
    }
    return EBB_OK;
}

ebb_status ebb__ranks_refresh(run_session *session) {
    alloc_region region;
    if (session->ranks == NULL || session->copies_fresh) {
        return EBB_OK;
    }
    ebb__region_init(&region, session->ctx);
    ebb_status status = copy_tensors(session, &region);
    ebb__region_fini(&region);
    session->copies_fresh = status == EBB_OK;
    return status;
}

ebb_status ebb__ranks_serve(run_session *session, int32_t rank, int32_t what) {
    run_order order = {ORDER_SERVE, what, 0, 0};
    return send_to(session, rank, TAG_ORDER, &order, sizeof order);
}

ebb_status ebb__ranks_give(run_session *session, int32_t rank, const void *data, size_t bytes) {
    return bytes == 0 ? EBB_OK : send_to(session, rank, TAG_DATA, data, bytes);
}

ebb_status ebb__ranks_take(run_session *session, int32_t rank, void *data, size_t bytes) {
    return bytes == 0 ? EBB_OK : receive_from(session, rank, TAG_DATA, data, bytes);
}

ebb_status ebb__ranks_end(run_session *session, ebb_status how) {
    return order_all(session, (run_order){ORDER_END, (int32_t)how, 0, 0});
}

/* ---- following ---- */

static ebb_status move_bytes(run_session *s, const run_order *order) {
    run_place place =
        run_part(run_at(&s->plan->variables[order->index]), order->from, order->bytes);
    bool out = order->what == ORDER_READ;
    return move_place(s, place, out ? DEVICE_READ : DEVICE_READ | DEVICE_WRITE, 0);
}

static ebb_status carry_out(run_session *s, const run_order *order) {
    switch ((order_kind)order->what) {
    case ORDER_STEP:
        s->at_step = (int64_t)order->from;
        s->saved_step = (int64_t)order->bytes;
        TRY(receive_inputs(s));
        return ebb__run_step(s, order->index);
    case ORDER_ZERO:
        return zero(s, order->index);
    case ORDER_DRAW:
        return draw(s, order->from);
    case ORDER_MEANS:
        return each_average(s, order->index != 0);
    case ORDER_READ:
    case ORDER_WRITE:
        return move_bytes(s, order);
    case ORDER_SERVE:
        if (s->serve != NULL) {
            return s->serve(s->serve_user, s, order->index);
        }
        break;
    case ORDER_END:
        return (ebb_status)order->index;
    }
    return ebb__fail(s->ctx, EBB_INTERNAL, "rank 0 gave an order that there is not: %d",
                     order->what);
}

ebb_status ebb__ranks_follow(run_session *session) {
    run_order order = {0};
    TRY(tell(session));
    do {
        TRY(receive_from(session, 0, TAG_ORDER, &order, sizeof order));
        TRY(carry_out(session, &order));
    } while (order.what != ORDER_END);
    return EBB_OK;
}

/* ---- beside orders ---- */

ebb_status ebb__ranks_share_stages(comm_link *link, double seconds, alloc_region *region,
                                   pass_stages *ways) {
    pass_stage *layers = NULL;
    TRY(ebb__comm_broadcast(link, 0, ways, sizeof *ways, seconds));
    if (ways->n_layers < 0) {
        return EBB_OK;
    }
    size_t n = (size_t)ways->n_layers;
    TRY(ebb__region_alloc(region, n + 1, sizeof *layers, &layers));
    if (ebb__comm_rank(link) == 0) {
        memcpy(layers, ways->layers, n * sizeof *layers);
    }
    TRY(ebb__comm_broadcast(link, 0, layers, n * sizeof *layers, seconds));
    ways->layers = layers;
    return EBB_OK;
}

ebb_status ebb__ranks_lost(const run_session *session, ebb_status status) {
    char when[48] = "before the first step", saved[120] = "";
    if (status != EBB_LOST || session == NULL || session->link == NULL ||
        ebb__comm_lost(session->link).rank < 0) {
        return status;
    }
    comm_loss loss = ebb__comm_lost(session->link);
    const comm_peer *peer = ebb__comm_describe(session->link, loss.rank);
    if (session->at_step > 0) {
        (void)snprintf(when, sizeof when, "at step %" PRId64, session->at_step);
    }
    if (session->saved_step > 0) {
        (void)snprintf(saved, sizeof saved,
                       "; last checkpoint: step %" PRId64 ": the same command goes on from there",
                       session->saved_step);
    } else if (session->saved_step < 0) {
        (void)snprintf(saved, sizeof saved, "; no checkpoint yet: the same command starts again");
    }
    ebb__ctx_clear(session->ctx);
    return ebb__fail(session->ctx, status, "rank %d (pid %" PRId64 " on %s) %s: lost %s%s",
                     loss.rank, peer->pid, peer->host, loss.how, when, saved);
}
