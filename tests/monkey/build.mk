# build.mk - it starts the bridge beside it.

$(BUILD)/release/monkey-run: | $(BUILD)/release/enq-bridge
