/* planes.h - a member's share of a map for kernels that treat all lanes of a pixel alike: planes,
 * one for each group and block, and columns of their pixels, which are runs of images * channels
 * floats. Most planes are whole; only the first and the last of a share may be some columns of one.
 */
#ifndef DEVICE_CPU_PLANES_H
#define DEVICE_CPU_PLANES_H

#include "base/team.h"
#include "op/map.h"

enum { PLANE_COLUMNS = 64 }; /* cuts fall on multiples of these */

typedef struct cpu_planes {
    int64_t group, block, lo, hi; /* the current plane and its columns */
    int64_t next, end;            /* pieces of columns still to come, of all planes */
    int64_t pieces, blocks, width;
} cpu_planes;

static inline cpu_planes cpu_planes_start(const op_call *call, const op_map *m) {
    cpu_planes it = {.blocks = m->blocks, .width = op_map_pixel(m)};
    it.pieces = (it.width + PLANE_COLUMNS - 1) / PLANE_COLUMNS;
    ebb__team_share(it.pieces * m->blocks * m->groups, 1, call->member, call->members, &it.next,
                    &it.end);
    return it;
}

/* Whole groups, for what cannot be cut inside one. */
static inline cpu_planes cpu_planes_groups(const op_call *call, const op_map *m) {
    cpu_planes it = cpu_planes_start(call, m);
    int64_t planes = it.pieces * m->blocks, begin, end;
    ebb__team_share(m->groups, 1, call->member, call->members, &begin, &end);
    it.next = begin * planes;
    it.end = end * planes;
    return it;
}

static inline bool cpu_planes_next(cpu_planes *it) {
    if (it->next >= it->end) {
        return false;
    }
    int64_t plane = it->next / it->pieces, first = plane * it->pieces;
    int64_t stop = first + it->pieces < it->end ? first + it->pieces : it->end;
    it->group = plane / it->blocks;
    it->block = plane % it->blocks;
    it->lo = (it->next - first) * PLANE_COLUMNS;
    it->hi =
        (stop - first) * PLANE_COLUMNS < it->width ? (stop - first) * PLANE_COLUMNS : it->width;
    it->next = stop;
    return true;
}

/* Where the current plane's columns begin in a view. */
static inline float *cpu_plane(const cpu_planes *it, const op_view *view) {
    op_map m = op_map_of(&view->type);
    return (float *)view->data + it->group * op_map_pitch(view) + it->block * op_map_block(&m) +
           it->lo;
}

#endif
