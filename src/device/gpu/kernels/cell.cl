/* cell.cl - the pointwise parts of LSTM and GRU cells (op/ref/rnn_cell.inc). A row of gates is
 * columns of as many units each: i f g o (LSTM), r z n (GRU). */

ELEMENT(lstm_gates) {
    float i = math_sigmoid(GET_GATE(0, 0)), f = math_sigmoid(GET_GATE(0, 1));
    float g = math_tanh(GET_GATE(0, 2)), o = math_sigmoid(GET_GATE(0, 3));
    float next = FMA(f, GET(1), i * g);
    PUT_GATE(0, 0) = i;
    PUT_GATE(0, 1) = f;
    PUT_GATE(0, 2) = g;
    PUT_GATE(0, 3) = o;
    PUT(1) = next;
}

ELEMENT(lstm_state) {
    PUT(0) = FMA(GET_GATE(0, 1), GET(1), GET_GATE(0, 0) * GET_GATE(0, 2));
}

ELEMENT(lstm_gates_grad) {
    float i = GET_GATE(2, 0), f = GET_GATE(2, 1), g = GET_GATE(2, 2), o = GET_GATE(2, 3);
    float d_out = GET(0), dc = GET(1), before = GET(3);
    PUT_GATE(0, 0) = (dc * g) * (i * (1.0f - i));
    PUT_GATE(0, 1) = (dc * before) * (f * (1.0f - f));
    PUT_GATE(0, 2) = (dc * i) * FMA(-g, g, 1.0f);
    PUT_GATE(0, 3) = d_out * (o * (1.0f - o));
    PUT(1) = dc * f;
}

ELEMENT(lstm_out) {
    PUT(0) = GET(0) * math_tanh(GET(1));
}

ELEMENT(lstm_out_grad) {
    float t = math_tanh(GET(3)), d = GET(1), o = GET(2), start = 0.0f;
    if (HAS(IN(0))) {
        start = GET(0);
    }
    PUT(0) = d * t;
    PUT(1) = FMA(d * o, FMA(-t, t, 1.0f), start);
}

ELEMENT(gru_cell) {
    float reset = math_sigmoid(GET_GATE(0, 0) + GET_GATE(1, 0));
    float z = math_sigmoid(GET_GATE(0, 1) + GET_GATE(1, 1));
    float ghn = GET_GATE(1, 2), n = math_tanh(FMA(reset, ghn, GET_GATE(0, 2)));
    float before = GET(2);
    PUT(0) = FMA(z, before - n, n);
    PUT_GATE(1, 0) = reset;
    PUT_GATE(1, 1) = z;
    PUT_GATE(1, 2) = n;
    PUT_GATE(1, 3) = ghn;
}

ELEMENT(gru_cell_grad) {
    float reset = GET_GATE(1, 0), z = GET_GATE(1, 1), n = GET_GATE(1, 2), ghn = GET_GATE(1, 3);
    float d = GET(0), before = GET(2);
    float dn = d * (1.0f - z), dz = d * (before - n);
    float dn_pre = dn * FMA(-n, n, 1.0f), dr = dn_pre * ghn;
    float dr_pre = dr * (reset * (1.0f - reset)), dz_pre = dz * (z * (1.0f - z));
    PUT_GATE(0, 0) = dr_pre;
    PUT_GATE(1, 0) = dr_pre;
    PUT_GATE(0, 1) = dz_pre;
    PUT_GATE(1, 1) = dz_pre;
    PUT_GATE(0, 2) = dn_pre;
    PUT_GATE(1, 2) = dn_pre * reset;
    PUT(2) = d * z;
}
