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

// The classes of hexadecimal digits, in the same way.
//
//	01: a decimal digit; 08: one from 8 up
//	02: a letter; 04: a d; 10: an a or a b
DATA hexLows<>+0(SB)/8, $0x0103030703131301
DATA hexLows<>+8(SB)/8, $0x0000000000000909
GLOBL hexLows<>(SB), RODATA|NOPTR, $16

DATA hexHighs<>+0(SB)/8, $0x0016001609000000
DATA hexHighs<>+8(SB)/8, $0
GLOBL hexHighs<>(SB), RODATA|NOPTR, $16

DATA code<>+0(SB)/4, $0x75757575 // u, which begins an escape by code point
GLOBL code<>(SB), RODATA|NOPTR, $4

DATA each<>+0(SB)/4, $0x0f0f0f0f // mask of the lower half
DATA each<>+4(SB)/4, $0x40404040 // added to a class from 40 up, sets the top bit
DATA each<>+8(SB)/4, $0x03030303
DATA each<>+12(SB)/4, $0x5c5c5c5c // a backslash
GLOBL each<>(SB), RODATA|NOPTR, $16

// SI is the begin of b, DX where its last whole block begins, CX the position. Masks
// have a bit for each byte of the block; R12 is 1 if the block before escapes the first
// of them. R14 collects the characters escaped by two bytes, R13 the escapes by code
// point, Y14 the bytes, Y15 their classes.
TEXT ·insideVectors(SB), NOSPLIT, $0-41
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), DX
	MOVQ i+24(FP), CX
	SUBQ $64, DX
	XORL R12, R12
	XORL R13, R13
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

	XORL R10, R10
	ANDNQ R8, R11, R8 // where the text ends
	ANDNQ R11, BX, BX // escapes of more than two bytes, by the byte behind the backslash
	JNZ  codes

whole:
	TESTQ R8, R8
	JNZ  stop
	ANDNQ R11, R10, AX
	ORQ  AX, R14
	ORQ  R10, R13
	ADDQ $64, CX
	JMP  loop

	// R10 becomes those by code point. The others, those without four hexadecimal
	// digits, and surrogates that are no pair are added to R8.
codes:
	VMOVDQU (SI)(CX*1), Y0
	VMOVDQU 32(SI)(CX*1), Y1
	VPBROADCASTD code<>+0(SB), Y8
	VPCMPEQB Y0, Y8, Y9
	VPCMPEQB Y1, Y8, Y10
	VPMOVMSKB Y9, R10
	VPMOVMSKB Y10, AX
	SHLQ $32, AX
	ORQ  AX, R10
	ANDQ BX, R10
	ANDNQ BX, R10, BX
	ORQ  BX, R8

	VBROADCASTI128 hexLows<>(SB), Y8
	VBROADCASTI128 hexHighs<>(SB), Y9
	VPSHUFB Y0, Y8, Y10
	VPSHUFB Y1, Y8, Y11
	VPSRLW $4, Y0, Y0
	VPSRLW $4, Y1, Y1
	VPAND Y4, Y0, Y0
	VPAND Y4, Y1, Y1
	VPSHUFB Y0, Y9, Y0
	VPSHUFB Y1, Y9, Y1
	VPAND Y10, Y0, Y0
	VPAND Y11, Y1, Y1

	VPXOR Y8, Y8, Y8
	VPCMPEQB Y0, Y8, Y9
	VPCMPEQB Y1, Y8, Y10
	VPMOVMSKB Y9, BX
	VPMOVMSKB Y10, AX
	SHLQ $32, AX
	ORQ  AX, BX // no hexadecimal digits
	MOVQ BX, AX
	SHRQ $1, BX
	SHRQ $2, AX
	ORQ  AX, BX
	MOVQ BX, AX
	SHRQ $2, AX
	ORQ  AX, BX // one of the four bytes behind is none
	ANDQ R10, BX
	ORQ  BX, R8
	ANDNQ R10, BX, R15

	VPSLLW $5, Y0, Y9
	VPSLLW $5, Y1, Y10
	VPMOVMSKB Y9, BX
	VPMOVMSKB Y10, AX
	SHLQ $32, AX
	ORQ  AX, BX // d
	SHRQ $1, BX
	XORL R9, R9
	ANDQ R15, BX
	JZ   top
	VPSLLW $4, Y0, Y9
	VPSLLW $4, Y1, Y10
	VPSLLW $3, Y0, Y11
	VPSLLW $3, Y1, Y12
	VPOR Y11, Y9, Y9
	VPOR Y12, Y10, Y10
	VPMOVMSKB Y9, R9
	VPMOVMSKB Y10, AX
	SHLQ $32, AX
	ORQ  AX, R9
	SHRQ $2, R9
	ANDQ BX, R9 // d8 to db, the first half of a pair
	VPSLLW $6, Y0, Y9
	VPSLLW $6, Y1, Y10
	VPMOVMSKB Y9, R15
	VPMOVMSKB Y10, AX
	SHLQ $32, AX
	ORQ  AX, R15
	SHRQ $2, R15
	ANDNQ BX, R9, BX
	ANDQ R15, BX // dc to df, the second half
	MOVQ R9, AX
	SHLQ $6, AX
	ANDNQ BX, AX, AX // a second half without the first
	ORQ  AX, R8
	SHRQ $6, BX
	ANDNQ R9, BX, AX // a first half without the second
	ORQ  AX, R8

	// If an escape, or a pair of them, goes on in the next block, the next block begins
	// with that.
top:
	SHRQ $54, R9
	SHLQ $54, R9
	MOVQ R10, AX
	SHRQ $60, AX
	SHLQ $60, AX
	ORQ  AX, R9
	JZ   whole
	BSFQ R9, AX
	TESTQ R8, R8
	JZ   cut
	BSFQ R8, BX
	CMPQ BX, AX
	JLT  stop

cut:
	BLSIQ R9, R9
	DECQ R9 // what comes before it
	ANDQ R9, R10
	ANDQ R9, R11
	ANDNQ R11, R10, BX
	ORQ  BX, R14
	ORQ  R10, R13
	XORL R12, R12
	LEAQ -1(CX)(AX*1), CX
	JMP  loop

stop:
	LEAQ -1(R8), BX
	ANDNQ BX, R8, BX // what comes before it
	MOVQ BX, R9
	ANDQ R10, R9
	ORQ  R9, R13
	ANDQ R11, BX
	ANDNQ BX, R10, BX
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
	XORL BX, BX
	TESTQ R13, R13
	SETNE BX
	LEAQ (AX)(BX*8), AX // markCode
	VZEROUPPER
	MOVB AX, seen+40(FP)
	RET
