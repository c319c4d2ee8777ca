/* device.h - what a device offers, as three small tables: device (kernels), buffer (memory),
 * stream (execution). The CPU is one; nothing outside registry.c names it.
 *
 * Kernels are an ordered list, best first; the reference, which every op has, stands implicitly
 * last. The first that accepts a node wins, when the graph is compiled; running never chooses.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "op/op.h"

enum { DEVICE_PREPARED_BYTES = 128, DEVICE_MAX_FORMS = 24, DEVICE_MAX_RUN = 16, DEVICE_MARKS = 2 };
/* A node's kernel is an index in device.kernels or one of these: the op's reference; nothing to
 * run, since the node only names bytes of others. */
enum { DEVICE_KERNEL_REFERENCE = -1, DEVICE_KERNEL_NONE = -2 };

typedef struct device device;

typedef struct device_kernel {
    const char *name; /* "matmul.xsmm" */
    op_code op;
    /* NULL if the kernel can do this node, else why not (a constant sentence). */
    const char *(*accept)(const ir_graph *graph, const ir_node_rec *node);
    /* Honours op_call's lo and hi for nodes whose op has units. */
    bool ranges;
    /* The ways (packing, blocking) to carry out this node, all with the same bits, best guess
     * first, at most DEVICE_MAX_FORMS; gives their number. NULL: one way, form 0. */
    int32_t (*forms)(const ir_graph *graph, const ir_node_rec *node, int members, int32_t *list);
    void (*form_name)(int32_t form, char *text, size_t bytes);
    /* Into how many shares the node can be cut without loss, a multiple of `members`, so that who
     * is done early can take over from others; NULL: as many as members. Such kernels find their
     * scratch by call->worker. */
    int32_t (*shares)(const ir_graph *graph, const ir_node_rec *node, int32_t form, int members);
    /* Scratch bytes for `members` threads together; NULL: none. */
    size_t (*workspace)(const ir_graph *graph, const ir_node_rec *node, int32_t form, int members);
    /* Once, when addresses and leading dimensions are known: may store up to DEVICE_PREPARED_BYTES,
     * e.g. addresses of generated code. NULL: nothing to prepare. `call` has in, out, attr,
     * members. */
    ebb_status (*prepare)(ebb_ctx *ctx, const op_call *call, void *prepared);
    op_kernel_fn run;
    /* Bytes it moves beside the op's own operands, e.g. to pack a weight; NULL: none. */
    double (*extra_bytes)(const ir_graph *graph, const ir_node_rec *node);
    /* How long its arithmetic takes where flops_per_second would say 1; NULL: 1. */
    double (*pace)(const ir_graph *graph, const ir_node_rec *node);
} device_kernel;

/* One step of a program, ready to run. There are many: members are in an order that leaves no gaps,
 * and their size is looked at below. */
typedef struct device_instr {
    op_kernel_fn run;
    op_call call;         /* members: how many share it; member is filled in by the stream */
    ir_attr attr;         /* call.attr points here */
    int32_t units, block; /* of the first of a run of several; else 0 */
    _Alignas(16) unsigned char prepared[DEVICE_PREPARED_BYTES];
    /* A run (pass fuse): this one and those after it that are joined are carried out together, each
     * member taking `block` of its units at a time through all of them; they meet at the end. */
    bool joined;            /* to the one before */
    bool stops;             /* the program ends behind it if the first word of its result is not 0:
                               whoever runs the list looks there (run/session.c) */
    op_message message : 8; /* not run but done with the ranks' link, by whoever runs the list */
    op_transfer transfer : 8; /* likewise, with what lies outside the device's memory */
    int32_t shares;           /* of one that runs by itself */
    int32_t kernel;           /* index in the device's list, or DEVICE_KERNEL_REFERENCE */
    int32_t node;             /* of the compiled graph, for reports */
    ir_label label;
} device_instr;
_Static_assert(sizeof(void *) != 8 || sizeof(device_instr) == 224 + DEVICE_PREPARED_BYTES,
               "instructions grew: every plan does");

/* What the host wants of bytes that it maps. READ: they are there. WRITE alone: they are not, and
 * what is not written is undefined afterwards. Both: what is not written stays. */
typedef enum device_access { DEVICE_READ = 1, DEVICE_WRITE = 2 } device_access;

/* Memory of the device, which starts as zeros. A buffer is whatever the device takes it for; only
 * its own functions look into it. */
typedef struct device_buffer_table {
    ebb_status (*create)(const device *dev, ebb_ctx *ctx, size_t bytes, void **out);
    void (*touch)(void *buffer, size_t bytes); /* makes every page resident */
    void (*destroy)(ebb_ctx *ctx, void *buffer, size_t bytes);
    /* Where it begins, as the device's kernels know it: byte i lies i behind. Programs hold such
     * addresses; the host may not follow them unless the memory is shared. */
    void *(*address)(void *buffer);
    /* Bytes [offset, offset + bytes) as the host can touch them, until unmap(), which is given the
     * same and what map() gave; not while a program runs. NULL, both, where the host may touch the
     * memory itself: it is shared, and map and unmap cost nothing. */
    ebb_status (*map)(ebb_ctx *ctx, void *buffer, size_t offset, size_t bytes, unsigned access,
                      void **out);
    ebb_status (*unmap)(ebb_ctx *ctx, void *buffer, size_t offset, size_t bytes, unsigned access,
                        void *data);
    /* Copies bytes [offset, offset + bytes) to the host's memory, or back, behind what the stream
     * was given before and ahead of what it is given later, without waiting for either: the host
     * must leave `host` alone until the stream is done. NULL, both, where the memory is shared. */
    ebb_status (*fetch)(ebb_ctx *ctx, void *buffer, size_t offset, size_t bytes, void *host);
    ebb_status (*put)(ebb_ctx *ctx, void *buffer, size_t offset, size_t bytes, const void *host);
    /* Remembers how far the stream was given work; await() returns when the oldest of these marks
     * is passed, and forgets it. At most DEVICE_MARKS at a time; those that nobody waits for go
     * with the buffer. NULL, both, where the memory is shared. */
    ebb_status (*mark)(ebb_ctx *ctx, void *buffer);
    ebb_status (*await)(ebb_ctx *ctx, void *buffer);
    /* Before anything is mapped: `host` has room for two copies of `bytes` bytes, in which what
     * begins at `offset` is mapped from now on: one is filled while the device still reads the
     * other. NULL: it needs no such room. */
    ebb_status (*stage)(ebb_ctx *ctx, void *buffer, size_t offset, size_t bytes, void *host);
} device_buffer_table;

typedef struct device_stream device_stream;
typedef void (*device_observe_fn)(void *user, const device_instr *instr, double seconds);

typedef struct device_stream_table {
    ebb_status (*create)(const device *dev, ebb_ctx *ctx, int members, device_stream **out);
    void (*destroy)(device_stream *stream);
    /* Before a program runs for the first time, when its instructions are written: makes their
     * kernels ready, and writes what these are to find in the device's memory, from byte `at` on
     * (device.instr_bytes for each, device.view_bytes for each view). NULL: nothing to do. */
    ebb_status (*load)(device_stream *stream, void *buffer, uint64_t at,
                       device_instr *const *instrs, int32_t count);
    /* Runs the instructions in order, each run with all members; allocates nothing. What fails
     * (a device that is gone, a message that does not arrive) is said when all have stopped.
     * observe (optional) is called by member 0 after each instruction with its seconds: the time
     * from the end of the one before, or its part of that of a run, until its last member ended. */
    ebb_status (*run)(device_stream *stream, const device_instr *const *instrs, int32_t count,
                      device_observe_fn observe, void *user);
} device_stream_table;

/* What a device was asked to do since it was opened. */
typedef struct device_counts {
    uint64_t launches; /* of kernels */
    uint64_t copies;   /* between its memory and the host's */
    uint64_t waits;    /* of the host for the device */
    /* Those of them that a launch came after: steps alone have none, but what saves or loads
     * between them does. */
    uint64_t syncs;
    uint64_t allocations, allocated_bytes; /* of its memory, now */
} device_counts;

struct device {
    const char *name; /* "cpu" */
    void *state;      /* its own; NULL: it has none */
    bool refuses;     /* ops without a kernel are refused when a graph is compiled: no reference can
                         run where the host does not reach */
    const device_kernel *kernels;
    int32_t n_kernels;
    device_buffer_table buffer;
    device_stream_table stream;
    /* A line for --version: model, ISA, libraries. */
    void (*describe)(const device *dev, char *text, size_t bytes);
    /* The most flop/s that so many members reach together, measured; takes part of a second. */
    ebb_status (*measure_peak)(const device *dev, ebb_ctx *ctx, int members,
                               double *flops_per_second);
    device_counts (*counts)(const device *dev); /* NULL: it does not count */
    uint64_t memory_bytes, largest_bytes; /* its memory, and the most of it that can be had in one
                                             piece; 0: the host's, without a limit */
    int32_t instr_bytes, view_bytes; /* in its memory, of a program: for each instruction and view;
                                        0: programs lie in the host's memory alone */
    /* Constants for the cost model where nothing has been measured: flop/s and bytes/s of one
     * member. */
    double flops_per_second, bytes_per_second, seconds_per_instr;
    double away_bytes_per_second; /* between its memory and where stashes may wait outside it: the
                                     host's, or a disk where the memory is the host's */
    double scalar_share;          /* of these flop/s, what a reference kernel reaches */
    double bus_members;           /* members whose traffic all memory together carries, at most */
    double cache_bytes;           /* nodes that move fewer find them in a cache, */
    double cache_speed;           /* which is so many times as fast as memory */
    double meeting_seconds;       /* work shorter than this is done faster by one member alone */
    int32_t panel_lanes; /* units of a panel of a packed weight (op/pack.h); 0: none is packed */
    int32_t gate_lanes;  /* the same where a unit has several columns, one a gate */
    int32_t row_grain;   /* rows that kernels like to take at once: chunks are multiples of it */
    int32_t run_units;   /* of a run, that a member takes at a time: full panels, few enough bytes
                            for its own cache, little enough work for others to take over */
    int32_t run_floats;  /* the same of maps: floats of one, which are whole rows of pixels */
};

const device *ebb__device_default(void);

/* Which device: "cpu"; "opencl", its first that can be used, or "opencl:P.D", device D of platform
 * P; "auto", the first of opencl's that is no CPU, else cpu. NULL: cpu. In `folder` compiled
 * kernels are kept; NULL: nowhere. */
typedef struct device_choice {
    const char *name, *folder;
} device_choice;
/* EBB_USAGE with a sentence if there is no such device, or it cannot be used. What was opened is
 * closed after all buffers and streams, by the context that opened it. */
ebb_status ebb__device_open(ebb_ctx *ctx, const device_choice *choice,
                            const device **out) EBB_MUST_CHECK;
void ebb__device_close(const device *dev); /* also NULL, and the default */

/* A device that may be chosen, and what it says of itself. */
typedef struct device_info {
    char id[24]; /* "cpu", "opencl:0.0" */
    char what[200];
    uint64_t memory_bytes, largest_bytes;
    bool fma, fp64, is_cpu;
    char why_not[256]; /* it cannot be used; "": it can */
} device_info;
/* All of them; those that look usable are opened and asked to compute. */
ebb_status ebb__device_each(ebb_ctx *ctx, const char *folder,
                            void (*tell)(void *user, const device_info *info),
                            void *user) EBB_MUST_CHECK;

/* Whether its memory is planned apart from the host's: a budget is then one of the device. */
static inline bool device_apart(const device *dev) {
    return dev->instr_bytes > 0;
}

/* The device that somebody chose; NULL: the default. */
static inline const device *device_or_default(const device *chosen) {
    return chosen != NULL ? chosen : ebb__device_default();
}

#endif
