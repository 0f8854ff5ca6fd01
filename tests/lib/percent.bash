# percent.bash - the same as percent.h, for scripts of any shell.

percent() { # N: into $counted; not printed, as a subshell could not end the script
    case ${ENQ_TEST_PERCENT=100} in
    100 | [1-9] | [1-9][0-9]) ;;
    *)
        echo "ENQ_TEST_PERCENT=$ENQ_TEST_PERCENT: a number from 1 to 100" >&2
        exit 2
        ;;
    esac
    counted=$(($1 * ENQ_TEST_PERCENT / 100))
    [ "$counted" -gt 0 ] || counted=1
}
