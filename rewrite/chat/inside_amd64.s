//go:build !sidenote_plain

#include "textflag.h"

// Each byte is classified by its two halves: its class is the bits that the table
// entries of both halves have in common.
//
//	80: a control character, 00 to 1f
//	40: a quote, 22
//	20, 10, 08, 04: what makes an escape of two bytes: 5c; 62 66 6e; 72 74; 2f
//	02, 01: what may begin a tag: 26; 3c
//
// Quotes and control characters end the text: they are the classes from 40 up. A quote
// also makes an escape of two bytes: those classes are above 03 as signed numbers.
// VPSHUFB yields 0, no class, for bytes beyond ASCII.
DATA lows<>+0(SB)/8, $0x8092808880d88080  // 2: d8; 4: 88; 6: 92
DATA lows<>+8(SB)/8, $0x849080a180808080  // c: a1; e: 90; f: 84
GLOBL lows<>(SB), RODATA|NOPTR, $16

DATA highs<>+0(SB)/8, $0x0810200001468080
DATA highs<>+8(SB)/8, $0
GLOBL highs<>(SB), RODATA|NOPTR, $16

DATA each<>+0(SB)/4, $0x0f0f0f0f // mask of the lower half
DATA each<>+4(SB)/4, $0x40404040 // added to a class from 40 up, sets the top bit
DATA each<>+8(SB)/4, $0x03030303
DATA each<>+12(SB)/4, $0x5c5c5c5c // a backslash
GLOBL each<>(SB), RODATA|NOPTR, $16

// SI is the begin of b, DX where its last whole block begins, CX the position. Masks
// have a bit for each byte of the block; R12 is 1 if the block before escapes the first
// of them. R14 collects the escaped characters, Y14 the bytes, Y15 their classes.
TEXT ·insideVectors(SB), NOSPLIT, $0-41
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), DX
	MOVQ i+24(FP), CX
	SUBQ $64, DX
	XORL R12, R12
	XORL R14, R14
	MOVQ $0xaaaaaaaaaaaaaaaa, DI
	VBROADCASTI128 lows<>(SB), Y2
	VBROADCASTI128 highs<>(SB), Y3
	VPBROADCASTD each<>+0(SB), Y4
	VPBROADCASTD each<>+4(SB), Y5
	VPBROADCASTD each<>+8(SB), Y6
	VPBROADCASTD each<>+12(SB), Y7
	VPXOR Y14, Y14, Y14
	VPXOR Y15, Y15, Y15

loop:
	CMPQ CX, DX
	JGT  end
	VMOVDQU (SI)(CX*1), Y0
	VMOVDQU 32(SI)(CX*1), Y1
	VPOR Y0, Y14, Y14
	VPOR Y1, Y14, Y14

	VPCMPEQB Y0, Y7, Y8
	VPCMPEQB Y1, Y7, Y9
	VPMOVMSKB Y8, R9
	VPMOVMSKB Y9, AX
	SHLQ $32, AX
	ORQ  AX, R9 // backslashes

	VPSHUFB Y0, Y2, Y8
	VPSHUFB Y1, Y2, Y9
	VPSRLW $4, Y0, Y0
	VPSRLW $4, Y1, Y1
	VPAND Y4, Y0, Y0
	VPAND Y4, Y1, Y1
	VPSHUFB Y0, Y3, Y0
	VPSHUFB Y1, Y3, Y1
	VPAND Y8, Y0, Y0
	VPAND Y9, Y1, Y1
	VPOR Y0, Y15, Y15
	VPOR Y1, Y15, Y15

	VPADDB Y0, Y5, Y8
	VPADDB Y1, Y5, Y9
	VPMOVMSKB Y8, R8
	VPMOVMSKB Y9, AX
	SHLQ $32, AX
	ORQ  AX, R8 // quotes and controls

	VPCMPGTB Y6, Y0, Y8
	VPCMPGTB Y6, Y1, Y9
	VPMOVMSKB Y8, BX
	VPMOVMSKB Y9, AX
	SHLQ $32, AX
	ORQ  AX, BX // what makes an escape of two bytes

	// A carry added at the start of a run of backslashes comes out behind the run;
	// whether the run began on an even or an odd bit decides on which kind of bit it
	// comes out.
	ANDNQ R9, R12, R10
	LEAQ (R10)(R10*1), R11
	ORQ  DI, R11
	SUBQ R10, R11
	XORQ DI, R11
	ORQ  R9, R12
	ANDQ R11, R9  // backslashes that begin an escape
	XORQ R12, R11 // escaped characters
	MOVQ R9, R12
	SHRQ $63, R12

	ANDNQ R8, R11, R8
	ANDNQ R11, BX, BX
	ORQ  BX, R8 // where the text ends; for an escape of more than two bytes, the byte behind its backslash
	JNZ  stop
	ORQ  R11, R14
	ADDQ $64, CX
	JMP  loop

stop:
	LEAQ -1(R8), BX
	ANDNQ BX, R8, BX // what comes before it
	ANDQ R11, BX
	ORQ  BX, R14
	BSFQ R8, AX
	ADDQ AX, CX
	XORL R12, R12
	BTQ  AX, R11
	ADCQ $0, R12

end:
	SUBQ R12, CX // back to the backslash
	MOVQ CX, at+32(FP)
	XORL AX, AX
	XORL BX, BX
	TESTQ R14, R14
	SETNE AX // markEscape
	VPMOVMSKB Y14, CX
	TESTL CX, CX
	SETNE BX
	LEAQ (AX)(BX*2), AX // markWide
	VPTEST Y15, Y6
	SETNE BX
	LEAQ (AX)(BX*4), AX // markTag
	VZEROUPPER
	MOVB AX, seen+40(FP)
	RET
