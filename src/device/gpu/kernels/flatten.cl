/* flatten.cl - maps from and to rows of a matrix, and from bytes (op/ref/flatten.inc). */

/* Where an element of a map is in the matrix: image n in row n, then channel, y, x. */
DEVICE int64_t flat_of(const map *m, const map_place *p) {
    int64_t channel = (int64_t)p->image * map_channels(m) + p->channel;
    return (channel * m->high + p->y) * m->wide + p->x;
}

ELEMENT(flatten) {
    map m = map_of(IN(0));
    map_place p = map_place_of(&m, r, u);
    F32(OUT(0), 0)[flat_of(&m, &p)] = F32(IN(0), 0)[p.at];
}

ELEMENT(unflatten) {
    map m = map_of(OUT(0));
    map_place p = map_place_of(&m, r, u);
    F32(OUT(0), 0)[p.at] = F32(IN(0), 0)[flat_of(&m, &p)];
}

/* x, scale, shift. */
ELEMENT(images) {
    map m = map_of(OUT(0));
    map_place p = map_place_of(&m, r, u);
    int64_t pixel = ((int64_t)p.image * m.high + p.y) * m.wide + p.x;
    float x = (float)U8(IN(0))[pixel * map_channels(&m) + p.channel];
    F32(OUT(0), 0)[p.at] = FMA(x, F32(IN(1), 0)[p.channel], F32(IN(2), 0)[p.channel]);
}
