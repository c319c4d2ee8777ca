/* learning.c - the metrics of a run as the page about it reads and draws them. */
#include "page/learning.h"
#include "fuzz/fuzz.h"

void fuzz_learning(fuzz_room *room, fuzz_input input) {
    static const learning_metric metrics[] = {
        {"perplexity", "validation perplexity", .exponential = true},
        {"bleu", "BLEU", .higher = true}};
    learning_curve curve = {.metrics = metrics, .n_metrics = 2, .unit = "words"};
    fuzz_write(fuzz_file(room, "metrics.jsonl"), input.at, input.left);
    if (fuzz_fine(room, ebb__learning_read(room->ctx, room->folder, &curve))) {
        page_text text = {.ctx = room->ctx};
        fuzz_require(curve.n <= input.left, "more points than bytes");
        (void)fuzz_fine(room, ebb__learning_draw(room->ctx, &curve, &text));
        ebb__page_text_fini(&text);
    }
    ebb__free(room->ctx, curve.points);
}
