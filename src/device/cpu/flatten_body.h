/* flatten_body.h - maps from and to rows of a matrix, and from the bytes of images. The includer
 * defines CPU_FN(name). Members share images, or rows of pixels. */
#include "base/team.h"
#include "device/cpu/cpu.h"
#include "op/map.h"

/* Of every image and block, pixels by channels become channels by pixels, or back. */
static void turn_blocks(const op_call *call, const op_view *map, float *flat, bool back) {
    op_map m = op_map_of(&map->type);
    int64_t pixels = (int64_t)m.high * m.wide, pitch = op_map_pitch(map), begin, end;
    ebb__team_share(op_map_images(&m) * m.blocks, 1, call->member, call->members, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        float *rows = flat + i * m.channels * pixels, *lanes = map->data;
        lanes += op_map_at(&m, pitch, i / m.blocks, i % m.blocks * m.channels, 0, 0);
        if (back) {
            CPU_FN(transpose_block)(lanes, op_map_pixel(&m), rows, pixels, m.channels, pixels);
        } else {
            CPU_FN(transpose_block)(rows, pixels, lanes, op_map_pixel(&m), pixels, m.channels);
        }
    }
}

void CPU_FN(flatten)(const op_call *call) {
    turn_blocks(call, &call->in[0], call->out[0].data, false);
}

void CPU_FN(unflatten)(const op_call *call) {
    turn_blocks(call, &call->out[0], call->in[0].data, true);
}

/* One row of pixels of a group and block, written in order; each of its images is a stream of
 * bytes. */
static void image_row(const op_map *m, const uint8_t *x, const float *scale, const float *shift,
                      float *y) {
    int64_t all = op_map_channels(m), bytes = (int64_t)m->high * m->wide * all; /* of an image */
    for (int64_t at = 0; at < m->wide; at++) {
        for (int64_t i = 0; i < m->images; i++) {
            const uint8_t *from = x + i * bytes + at * all;
            for (int64_t c = 0; c < m->channels; c++) {
                *y++ = __builtin_fmaf((float)from[c], scale[c], shift[c]);
            }
        }
    }
}

/* x, scale, shift. */
void CPU_FN(images)(const op_call *call) {
    const op_view *out = &call->out[0];
    op_map m = op_map_of(&out->type);
    const uint8_t *x = call->in[0].data;
    int64_t row = m.wide * op_map_channels(&m), begin, end;
    ebb__team_share((int64_t)m.groups * m.high, 1, call->member, call->members, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t g = i / m.high, y = i % m.high;
        for (int64_t b = 0; b < m.blocks; b++) {
            int64_t c = b * m.channels;
            image_row(&m, x + (g * m.images * m.high + y) * row + c,
                      (const float *)call->in[1].data + c, (const float *)call->in[2].data + c,
                      (float *)out->data + g * op_map_pitch(out) + b * op_map_block(&m) +
                          y * m.wide * op_map_pixel(&m));
        }
    }
}
