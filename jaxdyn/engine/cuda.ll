; What stands between XLA and a kernel on an NVIDIA GPU: it finds the buffers of a call and launches the kernel on XLA's
; stream. Nothing else happens on the host, so a call can become part of a CUDA graph.
;
; cuda.py fills in @MAJOR@ and @MINOR@.

; ---- structures of xla/ffi/api/c_api.h ----

%XLA_FFI_Extension_Base = type { i64, i32, ptr }                        ; struct_size, type, next
%XLA_FFI_Api_Version = type { i64, ptr, i32, i32 }                      ; struct_size, extensions, major, minor
%XLA_FFI_Metadata = type { i64, %XLA_FFI_Api_Version, i32, i64 }        ; struct_size, version, traits, state_type_id
%XLA_FFI_Metadata_Extension = type { %XLA_FFI_Extension_Base, ptr }     ; base, metadata
%XLA_FFI_List = type { i64, ptr, i64, ptr, ptr }                        ; struct_size, extensions, size, types, buffers
; struct_size, extensions, api, ctx, stage, args, rets
%XLA_FFI_CallFrame = type { i64, ptr, ptr, ptr, i32, %XLA_FFI_List, %XLA_FFI_List }
%XLA_FFI_Buffer = type { i64, ptr, i32, ptr, i64, ptr }                 ; struct_size, extensions, dtype, data, rank, dims
%XLA_FFI_Error_Create_Args = type { i64, ptr, ptr, i32 }                ; struct_size, extensions, message, code
%XLA_FFI_Stream_Get_Args = type { i64, ptr, ptr, ptr }                  ; struct_size, extensions, ctx, stream
; struct_size, extensions, version, internal, then one function a field: 4 Error_Create, 8 Stream_Get
%XLA_FFI_Api = type { i64, ptr, %XLA_FFI_Api_Version, ptr, ptr, ptr, ptr, ptr, ptr }

; ---- our own ----

; What cuda.py says of a program: 0 cuLaunchKernel, 1 the kernel, 2 threads of a block, 3 inputs, 4 outputs, 5 operands
%Descriptor = type { ptr, ptr, i32, i64, i64, ptr }
; rows, whether all lanes share them
%Operand = type { i64, i64 }

declare i32 @snprintf(ptr, i64, ptr, ...)

@wrong = private constant [55 x i8] c"jaxdyn: an operand has not the shape compiled for here\00"
@many = private constant [55 x i8] c"jaxdyn: a kernel for GPUs has at most 2147483647 lanes\00"
@failed = private constant [68 x i8] c"jaxdyn: the kernel could not be launched: error %d of CUDA's driver\00"

; Returns an error of XLA's with a copy of the message.
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

; Returns the buffer of operand k: outputs follow the inputs.
define internal ptr @buffer(ptr %frame, i64 %inputs, i64 %k) nounwind {
  %args.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 5, i32 4
  %args = load ptr, ptr %args.p
  %rets.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 6, i32 4
  %rets = load ptr, ptr %rets.p
  %is_output = icmp uge i64 %k, %inputs
  %list = select i1 %is_output, ptr %rets, ptr %args
  %skipped = select i1 %is_output, i64 %inputs, i64 0
  %place = sub i64 %k, %skipped
  %buffer.p = getelementptr ptr, ptr %list, i64 %place
  %buffer = load ptr, ptr %buffer.p
  ret ptr %buffer
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
  %more = icmp ult i64 %i, %rank
  br i1 %more, label %dim, label %end
dim:
  %size.p = getelementptr i64, ptr %dims, i64 %i
  %size = load i64, ptr %size.p
  %product.next = mul i64 %product, %size
  %i.next = add i64 %i, 1
  br label %head
end:
  ret i64 %product
}

; Returns the number of lanes, from the first output that has rows; 0 if none has.
define internal i64 @lanes(ptr %frame, ptr %operands, i64 %inputs, i64 %all) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ %inputs, %entry ], [ %k.next, %output ]
  %more = icmp ult i64 %k, %all
  br i1 %more, label %output, label %none
output:
  %k.next = add i64 %k, 1
  %rows.p = getelementptr %Operand, ptr %operands, i64 %k, i32 0
  %rows = load i64, ptr %rows.p
  %some = icmp ne i64 %rows, 0
  br i1 %some, label %found, label %head
found:
  %buffer = call ptr @buffer(ptr %frame, i64 %inputs, i64 %k)
  %elements = call i64 @elements(ptr %buffer)
  %count = udiv i64 %elements, %rows
  ret i64 %count
none:
  ret i64 0
}

; Launches a program's kernel: what its handler calls with XLA's call frame. Returns null or an error of XLA's.
define ptr @jaxdyn_launch(ptr %frame, ptr %d) nounwind {
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
  store i32 1, ptr %traits.p                                            ; COMMAND_BUFFER_COMPATIBLE
  ret ptr null

call:
  %inputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 3
  %inputs = load i64, ptr %inputs.p
  %outputs.p = getelementptr %Descriptor, ptr %d, i32 0, i32 4
  %outputs = load i64, ptr %outputs.p
  %operands.p = getelementptr %Descriptor, ptr %d, i32 0, i32 5
  %operands = load ptr, ptr %operands.p
  %all = add i64 %inputs, %outputs
  %args.size.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 5, i32 2
  %args.size = load i64, ptr %args.size.p
  %rets.size.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 6, i32 2
  %rets.size = load i64, ptr %rets.size.p
  %args.same = icmp eq i64 %args.size, %inputs
  %rets.same = icmp eq i64 %rets.size, %outputs
  %same = and i1 %args.same, %rets.same
  br i1 %same, label %count, label %refuse
refuse:
  %mismatch = call ptr @fail(ptr %frame, ptr @wrong, i32 3)             ; XLA_FFI_Error_Code_INVALID_ARGUMENT
  ret ptr %mismatch
count:
  %lanes = call i64 @lanes(ptr %frame, ptr %operands, i64 %inputs, i64 %all)
  %few = icmp ult i64 %lanes, 2147483648
  br i1 %few, label %some, label %excess
excess:
  %too_many = call ptr @fail(ptr %frame, ptr @many, i32 3)
  ret ptr %too_many
some:
  %empty = icmp eq i64 %lanes, 0
  br i1 %empty, label %done, label %gather
done:
  ret ptr null

gather:                                                                 ; parameters: the operands' data, and the lanes
  %data = alloca ptr, i64 %all
  %last = add i64 %all, 1
  %parameters = alloca ptr, i64 %last
  %lanes.data = alloca i32
  %lanes.narrow = trunc i64 %lanes to i32
  store i32 %lanes.narrow, ptr %lanes.data
  %lanes.p = getelementptr ptr, ptr %parameters, i64 %all
  store ptr %lanes.data, ptr %lanes.p
  br label %head
head:
  %k = phi i64 [ 0, %gather ], [ %k.next, %operand ]
  %right = phi i1 [ true, %gather ], [ %right.next, %operand ]
  %more = icmp ult i64 %k, %all
  br i1 %more, label %operand, label %check
operand:
  %buffer = call ptr @buffer(ptr %frame, i64 %inputs, i64 %k)
  %from.p = getelementptr %XLA_FFI_Buffer, ptr %buffer, i32 0, i32 3
  %from = load ptr, ptr %from.p
  %data.p = getelementptr ptr, ptr %data, i64 %k
  store ptr %from, ptr %data.p
  %parameter.p = getelementptr ptr, ptr %parameters, i64 %k
  store ptr %data.p, ptr %parameter.p
  %rows.p = getelementptr %Operand, ptr %operands, i64 %k, i32 0
  %rows = load i64, ptr %rows.p
  %shared.p = getelementptr %Operand, ptr %operands, i64 %k, i32 1
  %shared = load i64, ptr %shared.p
  %is_shared = icmp ne i64 %shared, 0
  %own = select i1 %is_shared, i64 1, i64 %lanes
  %expected = mul i64 %rows, %own
  %elements = call i64 @elements(ptr %buffer)
  %exact = icmp eq i64 %elements, %expected
  %larger = icmp ugt i64 %elements, %expected
  %copies = and i1 %is_shared, %larger                                  ; copies for other devices may follow
  %fits = or i1 %exact, %copies
  %right.next = and i1 %right, %fits
  %k.next = add i64 %k, 1
  br label %head
check:
  br i1 %right, label %stream, label %refuse

stream:
  %get.args = alloca %XLA_FFI_Stream_Get_Args
  store %XLA_FFI_Stream_Get_Args { i64 32, ptr null, ptr null, ptr null }, ptr %get.args
  %ctx.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 3
  %ctx = load ptr, ptr %ctx.p
  %get.ctx = getelementptr %XLA_FFI_Stream_Get_Args, ptr %get.args, i32 0, i32 2
  store ptr %ctx, ptr %get.ctx
  %api.p = getelementptr %XLA_FFI_CallFrame, ptr %frame, i32 0, i32 2
  %api = load ptr, ptr %api.p
  %get.p = getelementptr %XLA_FFI_Api, ptr %api, i32 0, i32 8
  %get = load ptr, ptr %get.p
  %no_stream = call ptr %get(ptr %get.args)
  %got = icmp eq ptr %no_stream, null
  br i1 %got, label %launch, label %without
without:
  ret ptr %no_stream
launch:
  %stream.p = getelementptr %XLA_FFI_Stream_Get_Args, ptr %get.args, i32 0, i32 3
  %on = load ptr, ptr %stream.p
  %threads.p = getelementptr %Descriptor, ptr %d, i32 0, i32 2
  %threads = load i32, ptr %threads.p
  %threads.less = sub i32 %threads, 1
  %lanes.up = add i32 %lanes.narrow, %threads.less                      ; below 2^32
  %blocks = udiv i32 %lanes.up, %threads
  %function.p = getelementptr %Descriptor, ptr %d, i32 0, i32 0
  %function = load ptr, ptr %function.p
  %kernel.p = getelementptr %Descriptor, ptr %d, i32 0, i32 1
  %kernel = load ptr, ptr %kernel.p
  %status = call i32 %function(ptr %kernel, i32 %blocks, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 0, ptr %on,
                               ptr %parameters, ptr null)
  %launched = icmp eq i32 %status, 0
  br i1 %launched, label %done, label %lost
lost:
  %message = alloca i8, i64 128
  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %message, i64 128, ptr @failed, i32 %status)
  %error = call ptr @fail(ptr %frame, ptr %message, i32 13)             ; XLA_FFI_Error_Code_INTERNAL
  ret ptr %error
}
