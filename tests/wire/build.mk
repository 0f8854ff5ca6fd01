# build.mk - the transcripts need no program of their own, but the bridge and
# lockctl in another profile as well; and the bridge with its crash points.

parts_more += $(BUILD)/asan/enq-bridge $(BUILD)/asan/lockctl
parts_more += $(BUILD)/crash/enq-bridge
