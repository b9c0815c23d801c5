#include "textflag.h"

// Each byte of a vector.
DATA quotes<>+0(SB)/8, $0x2222222222222222
DATA quotes<>+8(SB)/8, $0x2222222222222222
DATA quotes<>+16(SB)/8, $0x2222222222222222
DATA quotes<>+24(SB)/8, $0x2222222222222222
GLOBL quotes<>(SB), RODATA|NOPTR, $32

DATA slashes<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA slashes<>+8(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA slashes<>+16(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA slashes<>+24(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL slashes<>(SB), RODATA|NOPTR, $32

DATA controls<>+0(SB)/8, $0x1f1f1f1f1f1f1f1f
DATA controls<>+8(SB)/8, $0x1f1f1f1f1f1f1f1f
DATA controls<>+16(SB)/8, $0x1f1f1f1f1f1f1f1f
DATA controls<>+24(SB)/8, $0x1f1f1f1f1f1f1f1f
GLOBL controls<>(SB), RODATA|NOPTR, $32

DATA nibbles<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+8(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+16(SB)/8, $0x0f0f0f0f0f0f0f0f
DATA nibbles<>+24(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $32

// The characters of an escape of two bytes: 22 2f 5c 62 66 6e 72 74. A byte is one
// of them where the sets of its halves meet: bit 0 stands for a high half of 2,
// bit 1 for 5, bit 2 for 6, bit 3 for 7.
DATA lows<>+0(SB)/8, $0x00040008000d0000  // 2: 22 62 72; 4: 74; 6: 66
DATA lows<>+8(SB)/8, $0x0104000200000000  // c: 5c; e: 6e; f: 2f
DATA lows<>+16(SB)/8, $0x00040008000d0000
DATA lows<>+24(SB)/8, $0x0104000200000000
GLOBL lows<>(SB), RODATA|NOPTR, $32

DATA highs<>+0(SB)/8, $0x0804020000010000
DATA highs<>+8(SB)/8, $0
DATA highs<>+16(SB)/8, $0x0804020000010000
DATA highs<>+24(SB)/8, $0
GLOBL highs<>(SB), RODATA|NOPTR, $32

// func insideBlocks(b []byte, i int) (at int, escapes, wide bool)
//
// SI begin of b, DX its length, CX at; R13 whether there were bytes beyond ASCII,
// R14 whether there were escapes. Masks have a bit for each byte of the block.
TEXT ·insideBlocks(SB), NOSPLIT, $0-42
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), DX
	MOVQ i+24(FP), CX
	XORL R13, R13
	XORL R14, R14
	VMOVDQU quotes<>(SB), Y2
	VMOVDQU slashes<>(SB), Y3
	VMOVDQU controls<>(SB), Y4

loop:
	LEAQ 64(CX), AX
	CMPQ AX, DX
	JGT  end
	VMOVDQU (SI)(CX*1), Y0
	VMOVDQU 32(SI)(CX*1), Y1

	VPCMPEQB Y0, Y2, Y8
	VPMINUB Y0, Y4, Y9
	VPCMPEQB Y0, Y9, Y9
	VPOR Y8, Y9, Y8
	VPMOVMSKB Y8, R8
	VPCMPEQB Y1, Y2, Y8
	VPMINUB Y1, Y4, Y9
	VPCMPEQB Y1, Y9, Y9
	VPOR Y8, Y9, Y8
	VPMOVMSKB Y8, AX
	SHLQ $32, AX
	ORQ  AX, R8 // quotes and controls

	VPCMPEQB Y0, Y3, Y8
	VPMOVMSKB Y8, R9
	VPCMPEQB Y1, Y3, Y8
	VPMOVMSKB Y8, AX
	SHLQ $32, AX
	ORQ  AX, R9 // backslashes

	VPMOVMSKB Y0, R10
	VPMOVMSKB Y1, AX
	SHLQ $32, AX
	ORQ  AX, R10 // beyond ASCII

	XORL R12, R12 // backslashes that begin an escape
	TESTQ R9, R9
	JNZ  escapes
	TESTQ R8, R8
	JNZ  stop
	ORQ  R10, R13
	ADDQ $64, CX
	JMP  loop

escapes:
	// A run of backslashes that begins on an even bit and one that begins on an odd
	// one differ in where a carry through the run comes out.
	MOVQ $0xaaaaaaaaaaaaaaaa, DI
	LEAQ (R9)(R9*1), R11
	ORQ  DI, R11
	SUBQ R9, R11
	XORQ DI, R11
	MOVQ R11, R12
	ANDQ R9, R12
	XORQ R9, R11 // escaped characters

	VMOVDQU nibbles<>(SB), Y5
	VMOVDQU lows<>(SB), Y6
	VMOVDQU highs<>(SB), Y7
	VPXOR Y10, Y10, Y10
	VPSHUFB Y0, Y6, Y8
	VPSRLW $4, Y0, Y9
	VPAND Y5, Y9, Y9
	VPSHUFB Y9, Y7, Y9
	VPAND Y8, Y9, Y8
	VPCMPEQB Y8, Y10, Y8
	VPMOVMSKB Y8, BX
	VPSHUFB Y1, Y6, Y8
	VPSRLW $4, Y1, Y9
	VPAND Y5, Y9, Y9
	VPSHUFB Y9, Y7, Y9
	VPAND Y8, Y9, Y8
	VPCMPEQB Y8, Y10, Y8
	VPMOVMSKB Y8, AX
	SHLQ $32, AX
	ORQ  AX, BX // what makes no escape of two bytes
	ANDQ R11, BX
	SHRQ $1, BX // the backslash before it
	NOTQ R11
	ANDQ R11, R8
	ORQ  BX, R8

	// An escape that the end of the block cuts is looked at with the next one.
	MOVQ R12, DI
	SHRQ $63, DI
	BTRQ $63, R12
	TESTQ R8, R8
	JNZ  stop
	ORQ  R10, R13
	ORQ  R12, R14
	ADDQ $64, CX
	SUBQ DI, CX
	JMP  loop

stop:
	BSFQ R8, AX
	ADDQ AX, CX
	MOVQ R8, BX // what comes before it
	NEGQ BX
	ANDQ R8, BX
	DECQ BX
	ANDQ BX, R10
	ANDQ BX, R12
	ORQ  R10, R13
	ORQ  R12, R14

end:
	VZEROUPPER
	MOVQ CX, at+32(FP)
	TESTQ R14, R14
	SETNE escapes+40(FP)
	TESTQ R13, R13
	SETNE wide+41(FP)
	RET
