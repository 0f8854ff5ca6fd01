# build.mk - the simulation: the library once more, instrumented so that each
# of its accesses to memory is a call of tests/sim/access.c.
#
# The instrumentation is the thread sanitizer's, its run time is not linked.
# What the library asks of the host in a schedule is the virtual kernel's.

sim_c := $(wildcard tests/sim/*.c)
# debug builds of the library audit the table after calls: not here
# and what is a process's own is swapped: those sources are in private.c
sim_not := src/api/audit.c src/async/helper.c src/sync/thread.c
sim_in := tests/sim/private.c
sim_lib := $(patsubst %.c,$(BUILD)/sim/%.o,$(filter-out $(sim_not),$(lib_c)) \
    $(sim_in))
sim_own := $(patsubst %.c,$(BUILD)/sim/%.o,$(filter-out $(sim_in),$(sim_c)))
sim_wrap := fcntl posix_fallocate pthread_mutex_lock \
    pthread_mutex_trylock pthread_mutex_unlock pthread_cond_wait pthread_cond_broadcast pthread_create pthread_sigmask \
    prctl eventfd syscall sys_cpus sys_cpu sys_is_real id_random \
    life_possible map_links map_check_whole

$(sim_lib): sim_flags := -fsanitize=thread -fno-optimize-sibling-calls -DENQ_DEBUG \
    $(if $(findstring clang,$(CC)),,-Wno-tsan -Wno-maybe-uninitialized) $(see_src) \
    -Itests
$(sim_own): sim_flags := -DENQ_DEBUG $(see_tests)

$(BUILD)/sim/%.o: %.c Makefile tests/sim/build.mk
	$(quiet)mkdir -p $(@D)
	$(call say,CC)
	$(quiet)$(CC) $(BASE) $(WERROR) -O2 -g $(CPPFLAGS) $(sim_flags) \
	    $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/sim/sim-run: $(sim_own) $(sim_lib)
	$(call say,LD)
	$(quiet)$(CC) $(CFLAGS) $(LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(sim_wrap)) \
	    -o $@ $^ $(LIBS)

comma := ,

parts_more += $(BUILD)/sim/sim-run
