/* conv.cl - convolution and its gradients (op/ref/conv.inc, op/conv.h). Every element is one chain of
 * fused multiply-adds, whose order is the specification: channels in blocks of 32, taps, channels of
 * the block; of weights, images in groups of 8, pixels, images of the group. */

#define CONV_CHANNELS 32
#define CONV_IMAGES 8

typedef struct conv {
    map x, y;
    int32_t inputs, outputs; /* channels of a group, of x and of y */
    int32_t high, wide, stride, pad_y, pad_x;
} conv;

DEVICE conv conv_of(GLOBAL const gpu_call *c, const map *x, GLOBAL const gpu_view *w,
                    const map *y) {
    conv v;
    v.x = *x;
    v.y = *y;
    v.inputs = w->dim[1];
    v.outputs = w->dim[0] / c->i[3];
    v.high = w->dim[2];
    v.wide = w->dim[3];
    v.stride = c->i[0];
    v.pad_y = c->i[1];
    v.pad_x = c->i[2];
    return v;
}

/* ---- an item for each element ---- */

/* Channels that lie side by side, times weights that lie `step` apart. */
DEVICE float conv_run(GLOBAL const float *x, GLOBAL const float *w, int32_t step, int32_t n,
                      float sum) {
    for (int32_t i = 0; i < n; i++) {
        sum = FMA(x[i], w[(int64_t)i * step], sum);
    }
    return sum;
}

/* bias, x, w. */
ELEMENT(conv) {
    map x = map_of(IN(1)), y = map_of(OUT(0));
    conv v = conv_of(c, &x, IN(2), &y);
    map_place p = map_place_of(&y, r, u);
    int32_t first = p.channel / v.outputs * v.inputs, taps = v.high * v.wide;
    GLOBAL const float *from = F32(IN(1), 0) + map_image(&x, p.image);
    GLOBAL const float *w = F32(IN(2), 0) + (int64_t)p.channel * v.inputs * taps;
    float sum = HAS(IN(0)) ? F32(IN(0), 0)[p.channel] : 0.0f;
    for (int32_t b = 0; b < v.inputs; b += CONV_CHANNELS) {
        int32_t end = b + CONV_CHANNELS < v.inputs ? b + CONV_CHANNELS : v.inputs;
        for (int32_t tap = 0; tap < taps; tap++) {
            int32_t iy = p.y * v.stride + tap / v.wide - v.pad_y;
            int32_t ix = p.x * v.stride + tap % v.wide - v.pad_x;
            if (iy >= 0 && iy < x.high && ix >= 0 && ix < x.wide) {
                GLOBAL const float *pixel = from + map_pixel(&x, iy, ix);
                for (int32_t k = b, run; k < end; k += run) {
                    run = map_run(&x, first + k, first + end);
                    sum = conv_run(pixel + map_channel(&x, first + k),
                                   w + (int64_t)k * taps + tap, taps, run, sum);
                }
            }
        }
    }
    F32(OUT(0), 0)[p.at] = sum;
}

/* c, dy, w. */
ELEMENT(conv_data) {
    map x = map_of(OUT(0)), y = map_of(IN(1));
    conv v = conv_of(c, &x, IN(2), &y);
    map_place p = map_place_of(&x, r, u);
    int32_t group = p.channel / v.inputs, last = (group + 1) * v.outputs, taps = v.high * v.wide;
    GLOBAL const float *from = F32(IN(1), 0) + map_image(&y, p.image);
    GLOBAL const float *w = F32(IN(2), 0) + (int64_t)(p.channel % v.inputs) * taps;
    float sum = 0.0f;
    if (HAS(IN(0))) {
        map start = map_of(IN(0));
        sum = F32(IN(0), 0)[map_place_of(&start, r, u).at];
    }
    for (int32_t b = group * v.outputs; b < last; b += CONV_CHANNELS) {
        int32_t end = b + CONV_CHANNELS < last ? b + CONV_CHANNELS : last;
        for (int32_t tap = 0; tap < taps; tap++) {
            int32_t ty = p.y + v.pad_y - tap / v.wide, tx = p.x + v.pad_x - tap % v.wide;
            int32_t oy = ty / v.stride, ox = tx / v.stride;
            if (ty >= 0 && tx >= 0 && oy * v.stride == ty && ox * v.stride == tx && oy < y.high &&
                ox < y.wide) {
                GLOBAL const float *pixel = from + map_pixel(&y, oy, ox);
                for (int32_t k = b, run; k < end; k += run) {
                    run = map_run(&y, k, end);
                    sum = conv_run(pixel + map_channel(&y, k),
                                   w + (int64_t)k * v.inputs * taps + tap, v.inputs * taps, run,
                                   sum);
                }
            }
        }
    }
    F32(OUT(0), 0)[p.at] = sum;
}

/* ---- gradients of weights: x as it lies, normalised, or from its code ---- */

#define X_DENSE 0
#define X_NORM 1
#define X_CODES 2

/* What makes a number of x of channel `of` what it was: statistics, gain, bias and relu. */
typedef struct conv_made {
    bool norm, relu;
    float mean, scale, gain, bias;
} conv_made;

DEVICE conv_made conv_made_of(GLOBAL char *arena, GLOBAL const gpu_call *c, int32_t of,
                              int32_t relu) {
    conv_made made;
    made.relu = relu != 0;
    made.norm = HAS(IN(3));
    made.mean = made.norm ? F32(IN(3), 0)[of] : 0.0f;
    made.scale = made.norm ? F32(IN(3), 0)[IN(3)->dim[1] + of] : 0.0f;
    made.gain = made.norm ? F32(IN(4), 0)[of] : 0.0f;
    made.bias = made.norm ? F32(IN(5), 0)[of] : 0.0f;
    return made;
}

DEVICE float conv_make(const conv_made *made, float value) {
    if (made->norm) {
        value = FMA((value - made->mean) * made->scale, made->gain, made->bias);
    }
    return made->relu && value <= 0.0f ? 0.0f : value;
}

/* The sizes of x: codes do not tell them. */
DEVICE map conv_x_map(GLOBAL const gpu_call *c, int32_t kind) {
    return kind == X_CODES
               ? map_sized(IN(1)->dim[0], c->i[9], c->i[10], c->i[11], c->i[12], c->i[13])
               : map_of(IN(2));
}

/* c, dy, x; an item for each tap r and, as units, channel of y and of x: neighbours are neighbouring
 * channels of y. */
DEVICE void conv_weight(GLOBAL char *arena, GLOBAL const gpu_call *c, int64_t r, int32_t u,
                        int32_t kind) {
    map x = conv_x_map(c, kind), y = map_of(IN(1));
    conv v = conv_of(c, &x, OUT(0), &y);
    int32_t tap = (int32_t)r, k = u % OUT(0)->dim[0], i = u / OUT(0)->dim[0];
    int32_t of = k / v.outputs * v.inputs + i, images = map_images(&y);
    int64_t to = ((int64_t)k * v.inputs + i) * (v.high * v.wide) + tap;
    GLOBAL const float *dy = F32(IN(1), 0) + map_channel(&y, k);
    int64_t channel = map_channel(&x, of);
    GLOBAL const float *from = F32(IN(2), 0) + channel;
    format f = format_of(kind == X_CODES ? c->i[7] : 8);
    conv_made made;
    if (kind != X_DENSE) {
        made = conv_made_of(arena, c, of, kind == X_CODES ? c->i[8] : c->i[7]);
    }
    int64_t images_dy[CONV_IMAGES], images_x[CONV_IMAGES];
    float sum = HAS(IN(0)) ? F32(IN(0), 0)[to] : 0.0f;
    for (int32_t g = 0; g < images; g += CONV_IMAGES) {
        int32_t count = images - g < CONV_IMAGES ? images - g : CONV_IMAGES;
        for (int32_t n = 0; n < count; n++) {
            images_dy[n] = map_image(&y, g + n);
            images_x[n] = map_image(&x, g + n);
        }
        for (int32_t oy = 0; oy < y.high; oy++) {
            int32_t iy = oy * v.stride + tap / v.wide - v.pad_y;
            for (int32_t ox = 0; ox < y.wide && iy >= 0 && iy < x.high; ox++) {
                int32_t ix = ox * v.stride + tap % v.wide - v.pad_x;
                int32_t inside = ix >= 0 && ix < x.wide ? count : 0;
                int64_t pixel = map_pixel(&x, iy, ix), pixel_dy = map_pixel(&y, oy, ox);
                for (int32_t n = 0; n < inside; n++) {
                    float value;
                    if (kind == X_CODES) {
                        int32_t image = g + n;
                        int64_t e = image % x.images * x.channels + channel + pixel;
                        value = format_value(
                            &f, code_at(&f, CODES(IN(2), image / x.images), e, x.pitch));
                    } else {
                        value = from[images_x[n] + pixel];
                    }
                    value = kind == X_DENSE ? value : conv_make(&made, value);
                    sum = FMA(dy[images_dy[n] + pixel_dy], value, sum);
                }
            }
        }
    }
    F32(OUT(0), 0)[to] = sum;
}

ELEMENT(conv_weights) {
    conv_weight(arena, c, r, u, X_DENSE);
}
/* c, dy, x, stat, gain, bias. */
ELEMENT(conv_weights_norm) {
    conv_weight(arena, c, r, u, X_NORM);
}
/* c, dy, codes, stat, gain, bias. */
ELEMENT(conv_weights_narrow) {
    conv_weight(arena, c, r, u, X_CODES);
}

/* c, dy; an item for each channel. */
ELEMENT(conv_bias) {
    map m = map_of(IN(1));
    GLOBAL const float *dy = F32(IN(1), 0) + map_channel(&m, u);
    int32_t images = map_images(&m), pixels = m.high * m.wide;
    int64_t from[CONV_IMAGES];
    float sum = HAS(IN(0)) ? F32(IN(0), 0)[u] : 0.0f;
    for (int32_t g = 0; g < images; g += CONV_IMAGES) {
        int32_t count = images - g < CONV_IMAGES ? images - g : CONV_IMAGES;
        for (int32_t n = 0; n < count; n++) {
            from[n] = map_image(&m, g + n);
        }
        for (int32_t pixel = 0; pixel < pixels; pixel++) {
            for (int32_t n = 0; n < count; n++) {
                sum += dy[from[n] + pixel * m.of_pixel];
            }
        }
    }
    F32(OUT(0), 0)[u] = sum;
}
