/* line.h - one measured product as a line of text, which is one JSON object: written in one way
 * only, and nothing else is read. All numbers are whole (seconds are counted in picoseconds), so a
 * line means the same in every locale, and reading it needs no memory.
 */
#ifndef COST_LINE_H
#define COST_LINE_H

#include "cost/table.h"

enum { COST_LINE_BYTES = 2048 }; /* more than any line has */

/* The time as lines hold it: what is planned with now is what later runs will read. */
double ebb__cost_line_seconds(double seconds);
/* Without a line end. */
void ebb__cost_line_write(const device *dev, const cost_entry *entry, char line[COST_LINE_BYTES]);
/* NULL, or what is wrong with the line. The key's kernel is -1 where this build has none of that
 * name. */
const char *ebb__cost_line_read(const device *dev, const char *line, cost_entry *out);

#endif
