;; The matrix products of the language model. Every step between tokens and logits that costs time is this function.
;;
;; y[t][r] = sum over c of w[r][c] x[t][c], for each token t and each row r of a matrix whose numbers are packed in blocks
;; of 32, as in the model's file. A block's numbers are d q + m, with whole numbers q:
;;
;;   Q4_1, 20 bytes: d and m in half precision, then 16 bytes. Their low halves are the first 16 q, their high halves the
;;                   last 16; each is 0 to 15
;;   Q8_0, 34 bytes: d in half precision, then 32 bytes, each a q from -128 to 127; m is 0
;;
;; A block is unpacked once, into eight registers of four numbers each, and then multiplied with every token's numbers.
;; So the weights stay packed in memory, and reading ten tokens costs less than ten times one token.
(module
  (memory (import "engine" "memory") 1)

  (func (export "linear")
    (param $four_bits i32)   ;; 1: blocks of Q4_1; 0: blocks of Q8_0
    (param $w i32)           ;; address of the matrix: rows * cols numbers, packed
    (param $rows i32) (param $cols i32)
    (param $x i32)           ;; address of the inputs, float32 (tokens, cols)
    (param $y i32)           ;; address of the outputs, float32 (tokens, rows)
    (param $tokens i32)
    (param $sums i32)        ;; address of room for four partial sums a token: 16 * tokens bytes

    (local $row i32) (local $left i32) (local $t i32)
    (local $block i32)       ;; address of the inputs that meet this block, of the first token
    (local $in i32) (local $sum i32) (local $out i32)
    (local $scales v128) (local $packed v128) (local $a v128) (local $b v128) (local $half v128)
    (local $d v128) (local $m v128) (local $s v128)
    (local $w0 v128) (local $w1 v128) (local $w2 v128) (local $w3 v128)
    (local $w4 v128) (local $w5 v128) (local $w6 v128) (local $w7 v128)

    (loop $each_row
      (memory.fill (local.get $sums) (i32.const 0) (i32.shl (local.get $tokens) (i32.const 4)))
      (local.set $block (local.get $x))
      (local.set $left (local.get $cols))

      (loop $each_block
        ;; The block's scales, as halves in the first two lanes, and its q, as signed bytes in a and b.
        (if (local.get $four_bits)
          (then
            (local.set $scales (i32x4.extend_low_i16x8_u (v128.load32_zero (local.get $w))))
            (local.set $packed (v128.load offset=4 (local.get $w)))
            (local.set $a (v128.and (local.get $packed) (i8x16.splat (i32.const 15))))
            (local.set $b (i8x16.shr_u (local.get $packed) (i32.const 4)))
            (local.set $w (i32.add (local.get $w) (i32.const 20))))
          (else
            (local.set $scales
              (i32x4.replace_lane 0 (v128.const i32x4 0 0 0 0) (i32.load16_u (local.get $w))))
            (local.set $a (v128.load offset=2 (local.get $w)))
            (local.set $b (v128.load offset=18 (local.get $w)))
            (local.set $w (i32.add (local.get $w) (i32.const 34)))))

        ;; From half precision to single: exponent and fraction move up, the exponents differ by 112, the sign follows.
        (local.set $scales
          (v128.or
            (f32x4.mul
              (i32x4.shl (v128.and (local.get $scales) (i32x4.splat (i32.const 0x7fff))) (i32.const 13))
              (f32x4.splat (f32.const 0x1p112)))
            (i32x4.shl (v128.and (local.get $scales) (i32x4.splat (i32.const 0x8000))) (i32.const 16))))
        (local.set $d (f32x4.splat (f32x4.extract_lane 0 (local.get $scales))))
        (local.set $m (f32x4.splat (f32x4.extract_lane 1 (local.get $scales))))

        ;; 32 bytes q become 32 numbers d q + m.
        (local.set $half (i16x8.extend_low_i8x16_s (local.get $a)))
        (local.set $w0 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $half))))))
        (local.set $w1 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $half))))))
        (local.set $half (i16x8.extend_high_i8x16_s (local.get $a)))
        (local.set $w2 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $half))))))
        (local.set $w3 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $half))))))
        (local.set $half (i16x8.extend_low_i8x16_s (local.get $b)))
        (local.set $w4 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $half))))))
        (local.set $w5 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $half))))))
        (local.set $half (i16x8.extend_high_i8x16_s (local.get $b)))
        (local.set $w6 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_low_i16x8_s (local.get $half))))))
        (local.set $w7 (f32x4.add (local.get $m) (f32x4.mul (local.get $d)
          (f32x4.convert_i32x4_s (i32x4.extend_high_i16x8_s (local.get $half))))))

        ;; Each token's 32 inputs meet these 32 weights. The products are added in pairs, so that few wait for others.
        (local.set $in (local.get $block))
        (local.set $sum (local.get $sums))
        (local.set $t (local.get $tokens))
        (loop $each_token
          (local.set $s (f32x4.add
            (f32x4.add
              (f32x4.add
                (f32x4.mul (local.get $w0) (v128.load offset=0 (local.get $in)))
                (f32x4.mul (local.get $w1) (v128.load offset=16 (local.get $in))))
              (f32x4.add
                (f32x4.mul (local.get $w2) (v128.load offset=32 (local.get $in)))
                (f32x4.mul (local.get $w3) (v128.load offset=48 (local.get $in)))))
            (f32x4.add
              (f32x4.add
                (f32x4.mul (local.get $w4) (v128.load offset=64 (local.get $in)))
                (f32x4.mul (local.get $w5) (v128.load offset=80 (local.get $in))))
              (f32x4.add
                (f32x4.mul (local.get $w6) (v128.load offset=96 (local.get $in)))
                (f32x4.mul (local.get $w7) (v128.load offset=112 (local.get $in)))))))
          (v128.store (local.get $sum) (f32x4.add (v128.load (local.get $sum)) (local.get $s)))
          (local.set $sum (i32.add (local.get $sum) (i32.const 16)))
          (local.set $in (i32.add (local.get $in) (i32.shl (local.get $cols) (i32.const 2))))
          (br_if $each_token (local.tee $t (i32.sub (local.get $t) (i32.const 1)))))

        (local.set $block (i32.add (local.get $block) (i32.const 128)))
        (br_if $each_block (local.tee $left (i32.sub (local.get $left) (i32.const 32)))))

      ;; Four partial sums a token become one output.
      (local.set $sum (local.get $sums))
      (local.set $out (i32.add (local.get $y) (i32.shl (local.get $row) (i32.const 2))))
      (local.set $t (local.get $tokens))
      (loop $each_token
        (local.set $s (v128.load (local.get $sum)))
        (f32.store (local.get $out) (f32.add
          (f32.add (f32x4.extract_lane 0 (local.get $s)) (f32x4.extract_lane 1 (local.get $s)))
          (f32.add (f32x4.extract_lane 2 (local.get $s)) (f32x4.extract_lane 3 (local.get $s)))))
        (local.set $sum (i32.add (local.get $sum) (i32.const 16)))
        (local.set $out (i32.add (local.get $out) (i32.shl (local.get $rows) (i32.const 2))))
        (br_if $each_token (local.tee $t (i32.sub (local.get $t) (i32.const 1)))))

      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $each_row (i32.lt_u (local.get $row) (local.get $rows))))))
