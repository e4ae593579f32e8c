; What stands between XLA and a compiled program on a CPU: it finds the buffers of a call, cuts their lanes in blocks,
; spreads the blocks over XLA's thread pool, copies each block into a stage and back, and calls the program's kernel.
;
; A template, filled in by runtime.py: words between two @ are replaced, and what stands between ";; on PROCESSOR" and
; ";; end" is written only for that processor.
;
; Who waits for whom: blocks are handed out by a counter. The caller takes blocks too, and waits for blocks that somebody
; has begun, never for tasks, so a pool of one, a busy pool or none cannot deadlock. A task that starts late finds no
; block and only drops its reference to the job.

; ---- structures of xla/ffi/api/c_api.h ----

%XLA_FFI_Extension_Base = type { i64, i32, ptr }                        ; struct_size, type, next
%XLA_FFI_Api_Version = type { i64, ptr, i32, i32 }                      ; struct_size, extensions, major, minor
%XLA_FFI_Metadata = type { i64, %XLA_FFI_Api_Version, i32, i64 }        ; struct_size, version, traits, state_type_id
%XLA_FFI_Metadata_Extension = type { %XLA_FFI_Extension_Base, ptr }     ; base, metadata
%XLA_FFI_Args = type { i64, ptr, i64, ptr, ptr }                        ; struct_size, extensions, size, types, args
%XLA_FFI_Rets = type { i64, ptr, i64, ptr, ptr }                        ; the same of results
%XLA_FFI_Attrs = type { i64, ptr, i64, ptr, ptr, ptr }                  ; not read
; struct_size, extensions, api, ctx, stage, args, rets, attrs, future
%XLA_FFI_CallFrame = type { i64, ptr, ptr, ptr, i32, %XLA_FFI_Args, %XLA_FFI_Rets, %XLA_FFI_Attrs, ptr }
%XLA_FFI_Buffer = type { i64, ptr, i32, ptr, i64, ptr }                 ; struct_size, extensions, dtype, data, rank, dims
%XLA_FFI_Error_Create_Args = type { i64, ptr, ptr, i32 }                ; struct_size, extensions, message, code
%XLA_FFI_Error_Destroy_Args = type { i64, ptr, ptr }                    ; struct_size, extensions, error
%XLA_FFI_ThreadPool_Schedule_Args = type { i64, ptr, ptr, ptr, ptr }    ; struct_size, extensions, ctx, task, data
%XLA_FFI_ThreadPool_NumThreads_Args = type { i64, ptr, ptr, ptr }       ; struct_size, extensions, ctx, num_threads
; struct_size, extensions, version, internal, then one function a field: 4 Error_Create, 5 Error_GetMessage,
; 6 Error_Destroy, 7 Handler_Register, 8 Stream_Get, 9 Type_Register, 10 ExecutionContext_Get, 11 State_Set,
; 12 State_Get, 13 DeviceMemory_Allocate, 14 DeviceMemory_Free, 15 ThreadPool_Schedule, 16 ThreadPool_NumThreads
%XLA_FFI_Api = type { i64, ptr, %XLA_FFI_Api_Version, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }

; ---- our own ----

; What a program says of itself (descriptor() in runtime.py writes it): 0 prologue, 1 kernel, 2 lanes a vector,
; 3 vectors a block, 4 inputs, 5 outputs, 6 operands, 7 stage_bytes of one vector, 8 uniform_bytes, 9 arena_bytes
%Descriptor = type { ptr, ptr, i64, i64, i64, i64, ptr, i64, i64, i64 }
; rows, bytes of a number, offset in a vector's stage (-1: shared by all lanes)
%Operand = type { i64, i64, i64 }
; One call: 0 next block, 1 blocks done, 2 references, 3 blocks, 4 lanes, 5 bytes of a worker's memory, 6 vectors a stage,
; 7 descriptor, 8 uniform, 9 data of the operands. The uniform numbers follow in the same allocation.
; A late task reads only fields 0 to 5, so nothing else has to outlive the call.
%Job = type { i64, i64, i64, i64, i64, i64, i64, ptr, ptr, [0 x ptr] }

; functions of the C library, under names of our own
declare ptr @jaxdyn_malloc(i64)
declare void @jaxdyn_free(ptr)
declare i32 @jaxdyn_yield()
declare ptr @jaxdyn_copy(ptr, ptr, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

@no_memory = private constant [41 x i8] c"jaxdyn: not enough memory for the kernel\00"
@bad_count = private constant [55 x i8] c"jaxdyn: an operand has not the shape compiled for here\00"

; ---- the processor: arithmetic as IEEE 754 has it (XLA's threads flush denormals), and a breath while spinning ----

;; on x86
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()

define internal i64 @set_ieee() nounwind {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %old = load i32, ptr %word
  store i32 8064, ptr %word                                             ; 0x1F80: nearest, no traps, denormals kept
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  %wide = zext i32 %old to i64
  ret i64 %wide
}

define internal void @restore(i64 %old) nounwind {
  %word = alloca i32
  %narrow = trunc i64 %old to i32
  store i32 %narrow, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}

define internal void @pause() nounwind {
  call void @llvm.x86.sse2.pause()
  ret void
}
;; end
;; on aarch64
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)

define internal i64 @set_ieee() nounwind {
  %old = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret i64 %old
}

define internal void @restore(i64 %old) nounwind {
  call void @llvm.aarch64.set.fpcr(i64 %old)
  ret void
}

define internal void @pause() nounwind {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
;; end
;; on other
define internal i64 @set_ieee() nounwind {
  ret i64 0
}

define internal void @restore(i64 %old) nounwind {
  ret void
}

define internal void @pause() nounwind {
  ret void
}
;; end

; ---- copies between the buffers, where a lane's numbers follow each other, and a stage, where a row's do ----

; Functions (ptr far, ptr near, i64 rows, i64 width, i64 lanes, i64 row) that copy a vector of an operand: `far` is its
; first lane in the buffer, `near` its first row in the stage; `lanes` of the `width` lanes exist, and rows of the stage
; are `row` bytes apart. A lane of the stage beyond them gets the numbers of the last one.
; runtime.py writes them, since they are networks of shuffles; see there what stands where in the table.
@COPIES@
; Copies the operands first to last - 1 of a block between their buffers and the stage: `count` lanes from `begin` on.
define internal void @carry(ptr %job, ptr %stage, i64 %begin, i64 %count, i64 %first, i64 %last, i64 %out) nounwind {
entry:
  %d.p = getelementptr %Job, ptr %job, i32 0, i32 7
  %d = load ptr, ptr %d.p
  %width.p = getelementptr %Descriptor, ptr %d, i32 0, i32 2
  %width = load i64, ptr %width.p
  %width.log = call i64 @llvm.cttz.i64(i64 %width, i1 true)
  %operands.p = getelementptr %Descriptor, ptr %d, i32 0, i32 6
  %operands = load ptr, ptr %operands.p
  %stage_bytes.p = getelementptr %Descriptor, ptr %d, i32 0, i32 7
  %stage_bytes = load i64, ptr %stage_bytes.p
  br label %head
head:
  %k = phi i64 [ %first, %entry ], [ %k.next, %next ]
  %k.more = icmp ult i64 %k, %last
  br i1 %k.more, label %operand, label %end
operand:
  %rows.p = getelementptr %Operand, ptr %operands, i64 %k, i32 0
  %rows = load i64, ptr %rows.p
  %bytes.p = getelementptr %Operand, ptr %operands, i64 %k, i32 1
  %bytes = load i64, ptr %bytes.p
  %offset.p = getelementptr %Operand, ptr %operands, i64 %k, i32 2
  %offset = load i64, ptr %offset.p
  %some = icmp ne i64 %rows, 0
  %wide = icmp sge i64 %offset, 0
  %copied = and i1 %some, %wide
  br i1 %copied, label %place, label %next
place:
  %lane = mul i64 %rows, %bytes
  %row = mul i64 %width, %bytes
  %far_step = mul i64 %width, %lane
  %before = mul i64 %begin, %lane
  %data.p = getelementptr %Job, ptr %job, i32 0, i32 9, i64 %k
  %data = load ptr, ptr %data.p
  %far = getelementptr i8, ptr %data, i64 %before
  %near = getelementptr i8, ptr %stage, i64 %offset
  %few = icmp ult i64 %rows, @FEW@
  %rows.zeros = call i64 @llvm.ctlz.i64(i64 %rows, i1 true)
  %rows.log = sub i64 63, %rows.zeros
  %side = call i64 @llvm.umin.i64(i64 %width.log, i64 %rows.log)
  %bytes.log = call i64 @llvm.cttz.i64(i64 %bytes, i1 true)
  br label %vector
vector:
  %far.v = phi ptr [ %far, %place ], [ %far.next, %vector ]
  %near.v = phi ptr [ %near, %place ], [ %near.next, %vector ]
  %left = phi i64 [ %count, %place ], [ %left.next, %vector ]
  %lanes = call i64 @llvm.umin.i64(i64 %left, i64 %width)
  %full = icmp eq i64 %lanes, %width
  %whole = and i1 %few, %full
  %kind = select i1 %whole, i64 %rows, i64 0
  %log = select i1 %whole, i64 %width.log, i64 %side
  %size = call i64 @llvm.umin.i64(i64 %log, i64 @LARGEST@)
  %copy.p = getelementptr [4 x [@FEW@ x [@TILES@ x [2 x ptr]]]], ptr @copies,
            i64 0, i64 %bytes.log, i64 %kind, i64 %size, i64 %out
  %copy = load ptr, ptr %copy.p
  call void %copy(ptr %far.v, ptr %near.v, i64 %rows, i64 %width, i64 %lanes, i64 %row)
  %far.next = getelementptr i8, ptr %far.v, i64 %far_step
  %near.next = getelementptr i8, ptr %near.v, i64 %stage_bytes
  %left.next = sub i64 %left, %lanes
  %left.more = icmp ne i64 %left.next, 0
  br i1 %left.more, label %vector, label %next
next:
  %k.next = add i64 %k, 1
  br label %head
end:
  ret void
}

; ---- work ----

define internal ptr @align(ptr %p) nounwind {
  %i = ptrtoint ptr %p to i64
  %up = add i64 %i, 63
  %down = and i64 %up, -64
  %aligned = inttoptr i64 %down to ptr
  ret ptr %aligned
}

; Takes blocks until there are none left; `memory` is this worker's own, of the size that the job says.
define internal void @work(ptr %job, ptr %memory) nounwind {
entry:
  %done.p = getelementptr %Job, ptr %job, i32 0, i32 1
  %blocks.p = getelementptr %Job, ptr %job, i32 0, i32 3
  %blocks = load i64, ptr %blocks.p
  br label %take
take:
  %block = atomicrmw add ptr %job, i64 1 monotonic
  %got = icmp ult i64 %block, %blocks
  br i1 %got, label %begin, label %end
begin:                                                                  ; from here on the call waits for this block
  %lanes.p = getelementptr %Job, ptr %job, i32 0, i32 4
  %lanes = load i64, ptr %lanes.p
  %stages.p = getelementptr %Job, ptr %job, i32 0, i32 6
  %stages = load i64, ptr %stages.p
  %d.p = getelementptr %Job, ptr %job, i32 0, i32 7
  %d = load ptr, ptr %d.p
  %uniform.p = getelementptr %Job, ptr %job, i32 0, i32 8
  %uniform = load ptr, ptr %uniform.p
  %kernel.p = getelementptr %Descriptor, ptr %d, i32 0, i32 1
  %kernel = load ptr, ptr %kernel.p
  %width.p = getelementptr %Descriptor, ptr %d, i32 0, i32 2
  %width = load i64, ptr %width.p
  %block_vectors.p = getelementptr %Descriptor, ptr %d, i32 0, i32 3
  %block_vectors = load i64, ptr %block_vectors.p
  %inputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 4
  %inputs = load i64, ptr %inputs.p
  %outputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 5
  %outputs = load i64, ptr %outputs.p
  %operands = add i64 %inputs, %outputs
  %stage_bytes.p = getelementptr %Descriptor, ptr %d, i32 0, i32 7
  %stage_bytes = load i64, ptr %stage_bytes.p
  %stage = call ptr @align(ptr %memory)
  %stage.size = mul i64 %stages, %stage_bytes
  %arena = getelementptr i8, ptr %stage, i64 %stage.size
  %block_lanes = mul i64 %block_vectors, %width
  %first = mul i64 %block, %block_lanes
  %left = sub i64 %lanes, %first
  %count = call i64 @llvm.umin.i64(i64 %left, i64 %block_lanes)
  %width.less = sub i64 %width, 1
  %count.up = add i64 %count, %width.less
  %vectors = udiv i64 %count.up, %width
  call void @carry(ptr %job, ptr %stage, i64 %first, i64 %count, i64 0, i64 %inputs, i64 0)
  call void %kernel(ptr %stage, ptr %uniform, ptr %arena, i64 %vectors)
  call void @carry(ptr %job, ptr %stage, i64 %first, i64 %count, i64 %inputs, i64 %operands, i64 1)
  %before = atomicrmw add ptr %done.p, i64 1 release
  br label %take
end:
  ret void
}

; Drops a reference to the job; the last one frees it.
define internal void @drop(ptr %job) nounwind {
  %references.p = getelementptr %Job, ptr %job, i32 0, i32 2
  %references = atomicrmw sub ptr %references.p, i64 1 acq_rel
  %last = icmp eq i64 %references, 1
  br i1 %last, label %gone, label %end
gone:
  call void @jaxdyn_free(ptr %job)
  br label %end
end:
  ret void
}

; What a thread of the pool runs. Without memory it does not help.
define internal void @help(ptr %job) nounwind {
entry:
  %next = load atomic i64, ptr %job monotonic, align 8
  %blocks.p = getelementptr %Job, ptr %job, i32 0, i32 3
  %blocks = load i64, ptr %blocks.p
  %early = icmp ult i64 %next, %blocks
  br i1 %early, label %prepare, label %end
prepare:
  %size.p = getelementptr %Job, ptr %job, i32 0, i32 5
  %size = load i64, ptr %size.p
  %memory = call ptr @jaxdyn_malloc(i64 %size)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %end, label %able
able:
  %control = call i64 @set_ieee()
  call void @work(ptr %job, ptr %memory)
  call void @restore(i64 %control)
  call void @jaxdyn_free(ptr %memory)
  br label %end
end:
  call void @drop(ptr %job)
  ret void
}

; ---- a call ----

define internal void @forget(ptr %api, ptr %error) nounwind {
  %args = alloca %XLA_FFI_Error_Destroy_Args
  store %XLA_FFI_Error_Destroy_Args { i64 24, ptr null, ptr null }, ptr %args
  %error.p = getelementptr %XLA_FFI_Error_Destroy_Args, ptr %args, i32 0, i32 2
  store ptr %error, ptr %error.p
  %destroy.p = getelementptr %XLA_FFI_Api, ptr %api, i32 0, i32 6
  %destroy = load ptr, ptr %destroy.p
  call void %destroy(ptr %args)
  ret void
}

define internal ptr @fail(ptr %frame, ptr %message, i32 %code) nounwind {
  %args = alloca %XLA_FFI_Error_Create_Args
  store %XLA_FFI_Error_Create_Args { i64 28, ptr null, ptr null, i32 0 }, ptr %args
  %message.p = getelementptr %XLA_FFI_Error_Create_Args, ptr %args, i32 0, i32 2
  store ptr %message, ptr %message.p
  %code.p = getelementptr %XLA_FFI_Error_Create_Args, ptr %args, i32 0, i32 3
  store i32 %code, ptr %code.p
  %api.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 2
  %api = load ptr, ptr %api.p
  %create.p = getelementptr %XLA_FFI_Api, ptr %api, i32 0, i32 4
  %create = load ptr, ptr %create.p
  %error = call ptr %create(ptr %args)
  ret ptr %error
}

; Asks the pool for helpers: as many as it has threads beside the caller, and no more than there are blocks for.
; An error of the pool means no more helpers.
define internal void @ask(ptr %frame, ptr %job) nounwind {
entry:
  %threads = alloca i64
  %number = alloca %XLA_FFI_ThreadPool_NumThreads_Args
  %schedule = alloca %XLA_FFI_ThreadPool_Schedule_Args
  %api.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 2
  %api = load ptr, ptr %api.p
  %ctx.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 3
  %ctx = load ptr, ptr %ctx.p
  store i64 1, ptr %threads
  store %XLA_FFI_ThreadPool_NumThreads_Args { i64 32, ptr null, ptr null, ptr null }, ptr %number
  %number.ctx = getelementptr %XLA_FFI_ThreadPool_NumThreads_Args, ptr %number, i32 0, i32 2
  store ptr %ctx, ptr %number.ctx
  %number.out = getelementptr %XLA_FFI_ThreadPool_NumThreads_Args, ptr %number, i32 0, i32 3
  store ptr %threads, ptr %number.out
  %count.p = getelementptr %XLA_FFI_Api, ptr %api, i32 0, i32 16
  %count = load ptr, ptr %count.p
  %no_pool = call ptr %count(ptr %number)
  %pool = icmp eq ptr %no_pool, null
  br i1 %pool, label %some, label %none
none:
  call void @forget(ptr %api, ptr %no_pool)
  ret void
some:
  %n = load i64, ptr %threads
  %n.others = sub i64 %n, 1
  %blocks.p = getelementptr %Job, ptr %job, i32 0, i32 3
  %blocks = load i64, ptr %blocks.p
  %blocks.others = sub i64 %blocks, 1
  %helpers = call i64 @llvm.smin.i64(i64 %n.others, i64 %blocks.others)
  %useful = icmp sgt i64 %helpers, 0
  br i1 %useful, label %prepare, label %end
prepare:                                                                ; references come before the tasks that drop them
  %references.p = getelementptr %Job, ptr %job, i32 0, i32 2
  %mine = atomicrmw add ptr %references.p, i64 %helpers monotonic
  store %XLA_FFI_ThreadPool_Schedule_Args { i64 40, ptr null, ptr null, ptr @help, ptr null }, ptr %schedule
  %schedule.ctx = getelementptr %XLA_FFI_ThreadPool_Schedule_Args, ptr %schedule, i32 0, i32 2
  store ptr %ctx, ptr %schedule.ctx
  %schedule.data = getelementptr %XLA_FFI_ThreadPool_Schedule_Args, ptr %schedule, i32 0, i32 4
  store ptr %job, ptr %schedule.data
  %submit.p = getelementptr %XLA_FFI_Api, ptr %api, i32 0, i32 15
  %submit = load ptr, ptr %submit.p
  br label %helper
helper:
  %h = phi i64 [ %helpers, %prepare ], [ %h.next, %scheduled ]
  %refused = call ptr %submit(ptr %schedule)
  %accepted = icmp eq ptr %refused, null
  br i1 %accepted, label %scheduled, label %stop
scheduled:
  %h.next = sub i64 %h, 1
  %h.more = icmp ne i64 %h.next, 0
  br i1 %h.more, label %helper, label %end
stop:
  %unused = atomicrmw sub ptr %references.p, i64 %h monotonic
  call void @forget(ptr %api, ptr %refused)
  br label %end
end:
  ret void
}

; Waits until all blocks are done, of which every one has been begun: a short spin, then the core goes to others.
define internal void @wait(ptr %job) nounwind {
entry:
  %done.p = getelementptr %Job, ptr %job, i32 0, i32 1
  %blocks.p = getelementptr %Job, ptr %job, i32 0, i32 3
  %blocks = load i64, ptr %blocks.p
  br label %look
look:
  %spins = phi i64 [ 0, %entry ], [ %spins.next, %spin ], [ %spins, %sleep ]
  %done = load atomic i64, ptr %done.p acquire, align 8
  %all = icmp eq i64 %done, %blocks
  br i1 %all, label %end, label %more
more:
  %short = icmp ult i64 %spins, 200
  br i1 %short, label %spin, label %sleep
spin:
  call void @pause()
  %spins.next = add i64 %spins, 1
  br label %look
sleep:
  %ignored = call i32 @jaxdyn_yield()
  br label %look
end:
  ret void
}

; Returns the number of elements of a buffer.
define internal i64 @elements(ptr %buffer) nounwind {
entry:
  %rank.p = getelementptr %XLA_FFI_Buffer, ptr %buffer, i32 0, i32 4
  %rank = load i64, ptr %rank.p
  %dims.p = getelementptr %XLA_FFI_Buffer, ptr %buffer, i32 0, i32 5
  %dims = load ptr, ptr %dims.p
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %dim ]
  %product = phi i64 [ 1, %entry ], [ %product.next, %dim ]
  %i.more = icmp ult i64 %i, %rank
  br i1 %i.more, label %dim, label %end
dim:
  %size.p = getelementptr i64, ptr %dims, i64 %i
  %size = load i64, ptr %size.p
  %product.next = mul i64 %product, %size
  %i.next = add i64 %i, 1
  br label %head
end:
  ret i64 %product
}

; Returns the number of lanes, from the first output that has rows; -1 if the call has not the operands of the program.
define internal i64 @lanes(ptr %frame, ptr %d) nounwind {
entry:
  %inputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 4
  %inputs = load i64, ptr %inputs.p
  %outputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 5
  %outputs = load i64, ptr %outputs.p
  %operands.p = getelementptr %Descriptor, ptr %d, i32 0, i32 6
  %operands = load ptr, ptr %operands.p
  %args.size.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 5, i32 2
  %args.size = load i64, ptr %args.size.p
  %rets.size.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 6, i32 2
  %rets.size = load i64, ptr %rets.size.p
  %rets.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 6, i32 4
  %rets = load ptr, ptr %rets.p
  %args.same = icmp eq i64 %args.size, %inputs
  %rets.same = icmp eq i64 %rets.size, %outputs
  %same = and i1 %args.same, %rets.same
  br i1 %same, label %head, label %wrong
wrong:
  ret i64 -1
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %output ]
  %k.more = icmp ult i64 %k, %outputs
  br i1 %k.more, label %output, label %empty
output:
  %k.next = add i64 %k, 1
  %place = add i64 %inputs, %k
  %rows.p = getelementptr %Operand, ptr %operands, i64 %place, i32 0
  %rows = load i64, ptr %rows.p
  %some = icmp ne i64 %rows, 0
  br i1 %some, label %found, label %head
found:
  %buffer.p = getelementptr ptr, ptr %rets, i64 %k
  %buffer = load ptr, ptr %buffer.p
  %elements = call i64 @elements(ptr %buffer)
  %count = udiv i64 %elements, %rows
  ret i64 %count
empty:
  ret i64 0
}

; Puts the operands' data into the job; returns false if one has another number of elements than the program takes.
define internal i1 @gather(ptr %frame, ptr %d, ptr %job, i64 %lanes) nounwind {
entry:
  %inputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 4
  %inputs = load i64, ptr %inputs.p
  %outputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 5
  %outputs = load i64, ptr %outputs.p
  %all = add i64 %inputs, %outputs
  %operands.p = getelementptr %Descriptor, ptr %d, i32 0, i32 6
  %operands = load ptr, ptr %operands.p
  %args.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 5, i32 4
  %args = load ptr, ptr %args.p
  %rets.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 6, i32 4
  %rets = load ptr, ptr %rets.p
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %operand ]
  %right = phi i1 [ true, %entry ], [ %right.next, %operand ]
  %k.more = icmp ult i64 %k, %all
  br i1 %k.more, label %operand, label %end
operand:
  %is_output = icmp uge i64 %k, %inputs
  %list = select i1 %is_output, ptr %rets, ptr %args
  %skipped = select i1 %is_output, i64 %inputs, i64 0
  %place = sub i64 %k, %skipped
  %buffer.p = getelementptr ptr, ptr %list, i64 %place
  %buffer = load ptr, ptr %buffer.p
  %data.p = getelementptr %XLA_FFI_Buffer, ptr %buffer, i32 0, i32 3
  %data = load ptr, ptr %data.p
  %slot = getelementptr %Job, ptr %job, i32 0, i32 9, i64 %k
  store ptr %data, ptr %slot
  %rows.p = getelementptr %Operand, ptr %operands, i64 %k, i32 0
  %rows = load i64, ptr %rows.p
  %offset.p = getelementptr %Operand, ptr %operands, i64 %k, i32 2
  %offset = load i64, ptr %offset.p
  %shared = icmp slt i64 %offset, 0
  %own_lanes = select i1 %shared, i64 1, i64 %lanes
  %expected = mul i64 %rows, %own_lanes
  %elements = call i64 @elements(ptr %buffer)
  %equal = icmp eq i64 %elements, %expected
  %larger = icmp ugt i64 %elements, %expected
  %copies = and i1 %shared, %larger                                     ; copies for other devices may follow
  %same = or i1 %equal, %copies
  %right.next = and i1 %right, %same
  %k.next = add i64 %k, 1
  br label %head
end:
  ret i1 %right
}

; Runs a program: what its handler calls with XLA's call frame. Returns null or an error of XLA's.
define ptr @@RUN@(ptr %frame, ptr %d) nounwind {
entry:
  %extension.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 1
  %extension = load ptr, ptr %extension.p
  %extended = icmp ne ptr %extension, null
  br i1 %extended, label %extra, label %call
extra:
  %type.p = getelementptr %XLA_FFI_Extension_Base, ptr %extension, i32 0, i32 1
  %type = load i32, ptr %type.p
  %asked = icmp eq i32 %type, 1                                         ; XLA_FFI_Extension_Metadata
  br i1 %asked, label %answer, label %call
answer:
  %metadata.p = getelementptr %XLA_FFI_Metadata_Extension, ptr %extension, i32 0, i32 1
  %metadata = load ptr, ptr %metadata.p
  %major.p = getelementptr %XLA_FFI_Metadata, ptr %metadata, i32 0, i32 1, i32 2
  store i32 @MAJOR@, ptr %major.p
  %minor.p = getelementptr %XLA_FFI_Metadata, ptr %metadata, i32 0, i32 1, i32 3
  store i32 @MINOR@, ptr %minor.p
  %traits.p = getelementptr %XLA_FFI_Metadata, ptr %metadata, i32 0, i32 2
  store i32 0, ptr %traits.p
  ret ptr null

call:
  %lanes = call i64 @lanes(ptr %frame, ptr %d)
  switch i64 %lanes, label %size [ i64 0, label %nothing
                                   i64 -1, label %wrong ]
nothing:
  ret ptr null
wrong:
  %mismatch = call ptr @fail(ptr %frame, ptr @bad_count, i32 3)         ; XLA_FFI_Error_Code_INVALID_ARGUMENT
  ret ptr %mismatch

size:
  %prologue.p = getelementptr %Descriptor, ptr %d, i32 0, i32 0
  %prologue = load ptr, ptr %prologue.p
  %width.p = getelementptr %Descriptor, ptr %d, i32 0, i32 2
  %width = load i64, ptr %width.p
  %block_vectors.p = getelementptr %Descriptor, ptr %d, i32 0, i32 3
  %block_vectors = load i64, ptr %block_vectors.p
  %inputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 4
  %inputs = load i64, ptr %inputs.p
  %outputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 5
  %outputs = load i64, ptr %outputs.p
  %stage_bytes.p = getelementptr %Descriptor, ptr %d, i32 0, i32 7
  %stage_bytes = load i64, ptr %stage_bytes.p
  %uniform_bytes.p = getelementptr %Descriptor, ptr %d, i32 0, i32 8
  %uniform_bytes = load i64, ptr %uniform_bytes.p
  %arena_bytes.p = getelementptr %Descriptor, ptr %d, i32 0, i32 9
  %arena_bytes = load i64, ptr %arena_bytes.p
  ; blocks, and vectors of a stage
  %width.less = sub i64 %width, 1
  %lanes.up = add i64 %lanes, %width.less
  %vectors = udiv i64 %lanes.up, %width
  %stages = call i64 @llvm.umin.i64(i64 %vectors, i64 %block_vectors)
  %block_vectors.less = sub i64 %block_vectors, 1
  %vectors.up = add i64 %vectors, %block_vectors.less
  %blocks = udiv i64 %vectors.up, %block_vectors
  ; memory of a worker: stage and arena, and 64 bytes to align them
  %stage.size = mul i64 %stages, %stage_bytes
  %memory.used = add i64 %stage.size, %arena_bytes
  %memory.size = add i64 %memory.used, 64
  ; memory of the job: itself, the operands' data, the uniform numbers, and 64 bytes to align these
  %operands = add i64 %inputs, %outputs
  %head.end = getelementptr %Job, ptr null, i32 0, i32 9, i64 %operands
  %head.size = ptrtoint ptr %head.end to i64
  %job.used = add i64 %head.size, %uniform_bytes
  %job.size = add i64 %job.used, 64

  %job = call ptr @jaxdyn_malloc(i64 %job.size)
  %job.none = icmp eq ptr %job, null
  br i1 %job.none, label %poor, label %fill
fill:
  %uniform.from = getelementptr i8, ptr %job, i64 %head.size
  %uniform = call ptr @align(ptr %uniform.from)
  %next.p = getelementptr %Job, ptr %job, i32 0, i32 0
  store i64 0, ptr %next.p
  %done.p = getelementptr %Job, ptr %job, i32 0, i32 1
  store i64 0, ptr %done.p
  %references.p = getelementptr %Job, ptr %job, i32 0, i32 2
  store i64 1, ptr %references.p
  %blocks.p = getelementptr %Job, ptr %job, i32 0, i32 3
  store i64 %blocks, ptr %blocks.p
  %lanes.p = getelementptr %Job, ptr %job, i32 0, i32 4
  store i64 %lanes, ptr %lanes.p
  %memory.size.p = getelementptr %Job, ptr %job, i32 0, i32 5
  store i64 %memory.size, ptr %memory.size.p
  %stages.p = getelementptr %Job, ptr %job, i32 0, i32 6
  store i64 %stages, ptr %stages.p
  %d.p = getelementptr %Job, ptr %job, i32 0, i32 7
  store ptr %d, ptr %d.p
  %uniform.p = getelementptr %Job, ptr %job, i32 0, i32 8
  store ptr %uniform, ptr %uniform.p
  %right = call i1 @gather(ptr %frame, ptr %d, ptr %job, i64 %lanes)
  br i1 %right, label %allocate, label %refuse
refuse:
  call void @jaxdyn_free(ptr %job)
  br label %wrong
allocate:                                                               ; before anybody helps, so that failing is simple
  %memory = call ptr @jaxdyn_malloc(i64 %memory.size)
  %memory.none = icmp eq ptr %memory, null
  br i1 %memory.none, label %unable, label %start
unable:
  call void @jaxdyn_free(ptr %job)
  br label %poor
poor:
  %exhausted = call ptr @fail(ptr %frame, ptr @no_memory, i32 8)        ; XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
  ret ptr %exhausted

start:
  %control = call i64 @set_ieee()
  %without = icmp eq ptr %prologue, null
  br i1 %without, label %share, label %prepare
prepare:
  %data = getelementptr %Job, ptr %job, i32 0, i32 9
  call void %prologue(ptr %data, ptr %uniform)
  br label %share
share:
  %several = icmp ugt i64 %blocks, 1
  br i1 %several, label %many, label %run
many:
  call void @ask(ptr %frame, ptr %job)
  br label %run
run:
  call void @work(ptr %job, ptr %memory)
  call void @restore(i64 %control)
  call void @jaxdyn_free(ptr %memory)
  call void @wait(ptr %job)
  call void @drop(ptr %job)
  ret ptr null
}
