// relu.cc - the library from C++: a graph of one op, compiled and run.
// c++ -std=c++17 relu.cc $(pkg-config --cflags --libs ebb), or with CMake:
//   find_package(ebb REQUIRED)
//   add_executable(relu relu.cc)
//   target_link_libraries(relu ebb::ebb)
#include <ebb.h>

#include <cstdio>
#include <cstring>

int main() {
    ebb_ctx *ctx = nullptr;
    ebb_graph *graph = nullptr;
    ebb_program *program = nullptr;
    if (ebb_ctx_new(&ctx) != EBB_OK || ebb_graph_new(ctx, &graph) != EBB_OK) {
        return 1;
    }
    const int rows = 2; // EBB_DIMS takes any whole numbers that fit int64_t without narrowing
    ebb_output(graph, "y", ebb_relu(graph, ebb_input_f32(graph, "x", EBB_DIMS(rows, 2))));
    ebb_options options = ebb_options_default();
    options.optimizer = EBB_FORWARD;
    const float x[] = {-1, 2, -3, 4}, want[] = {0, 2, 0, 4};
    float y[4] = {};
    if (ebb_compile(graph, &options, &program) != EBB_OK ||
        ebb_program_set(program, "x", x, sizeof x) != EBB_OK ||
        ebb_program_run(program, 0) != EBB_OK ||
        ebb_program_get(program, "y", y, sizeof y) != EBB_OK) {
        std::puts(ebb_last_error(ctx));
        return 1;
    }
    std::printf("ebb %s: %g %g %g %g\n", ebb_version(), y[0], y[1], y[2], y[3]);
    const bool right = std::memcmp(y, want, sizeof y) == 0;
    ebb_program_free(program);
    ebb_graph_free(graph);
    ebb_ctx_free(ctx);
    return right && std::strcmp(ebb_version(), EBB_VERSION) == 0 ? 0 : 1;
}
