# Manual pages and completion, as the command itself tells them from the table of its options:
# cmake -D EBB=COMMAND -D OUT=FOLDER -P manuals.cmake writes them as they lie below share/.
function(ask file)
    get_filename_component(folder ${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    execute_process(COMMAND ${EBB} help ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${OUT})
execute_process(COMMAND ${EBB} help man OUTPUT_VARIABLE pages
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" pages "${pages}")
foreach(page IN LISTS pages)
    ask(${OUT}/man/man1/${page}.1 man ${page})
endforeach()
ask(${OUT}/bash-completion/completions/ebb bash)
ask(${OUT}/zsh/site-functions/_ebb zsh)
ask(${OUT}/fish/vendor_completions.d/ebb.fish fish)
file(TOUCH ${OUT}/written)
