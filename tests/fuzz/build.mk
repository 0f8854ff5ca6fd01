# build.mk - the fuzz targets, one program for all but two: library and targets with
# clang's address and undefined sanitizers and libFuzzer. Comparisons are not
# traced: that takes a third of the time, and the corpus has come through them.
# No debug assertions: what another process wrote is checked, never asserted.

fuzz_flags := -O2 -g -fno-omit-frame-pointer -fno-sanitize-recover=all \
    -fsanitize=address,undefined
fuzz_cover := -fsanitize-coverage=inline-8bit-counters,pc-table
fuzz_o := $(patsubst %.c,$(BUILD)/fuzz/obj/%.o,$(lib_c) \
    $(filter-out tests/fuzz/main.c,$(wildcard tests/fuzz/*.c)))

$(BUILD)/fuzz/obj/%.o: %.c Makefile tests/fuzz/build.mk
	$(quiet)mkdir -p $(@D)
	$(call say,CC)
	$(quiet)$(CLANG) $(BASE) $(WERROR) $(fuzz_flags) $(fuzz_cover) \
	    -Iinclude -Isrc -Itests -MMD -MP -c $< -o $@

$(BUILD)/fuzz/fuzz: $(fuzz_o)
	$(call say,LD)
	$(quiet)$(CLANG) -fsanitize=address,undefined,fuzzer -o $@ $^ -ljansson $(LIBS)

# After each execution libFuzzer reads all counters that are linked. Those two
# of millions of executions reach 300 of them: so they have a program with no more
# than they need, which takes 40 % less time, and not the 23,500 of the library.
fuzz_wire_o := $(patsubst %,$(BUILD)/fuzz/%.o,wire/tests/fuzz/targets \
    obj/tests/fuzz/scan obj/tests/fuzz/json)

$(BUILD)/fuzz/wire/%.o: %.c Makefile tests/fuzz/build.mk
	$(quiet)mkdir -p $(@D)
	$(call say,CC)
	$(quiet)$(CLANG) $(BASE) $(WERROR) $(fuzz_flags) $(fuzz_cover) \
	    -DFUZZ_WIRE -Iinclude -Isrc -Itests -MMD -MP -c $< -o $@

$(BUILD)/fuzz/libenq.a: $(filter $(BUILD)/fuzz/obj/src/%,$(fuzz_o))
	$(call say,AR)
	$(quiet)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/fuzz/wire-fuzz: $(fuzz_wire_o) $(BUILD)/fuzz/libenq.a
	$(call say,LD)
	$(quiet)$(CLANG) -fsanitize=address,undefined,fuzzer -o $@ $^ -ljansson $(LIBS)

$(BUILD)/release/fuzz-run: LIBS += -ljansson

parts_more += $(BUILD)/fuzz/fuzz $(BUILD)/fuzz/wire-fuzz
.SECONDARY: $(fuzz_o) $(fuzz_wire_o)
