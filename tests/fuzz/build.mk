# build.mk - the fuzz targets, one program for all: library and targets with
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

$(BUILD)/release/fuzz-run: LIBS += -ljansson

parts_more += $(BUILD)/fuzz/fuzz
.SECONDARY: $(fuzz_o)
