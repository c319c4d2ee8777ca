/* message.h - what a node that moves bytes between ranks does with the link (comm/comm.h). */
#ifndef OP_MESSAGE_H
#define OP_MESSAGE_H

#include "op/define.h"

/* Attributes of send, and of recv behind its type. */
enum { MESSAGE_SEND_PEER, MESSAGE_SEND_TAG, MESSAGE_SEND_VALUE };
enum { MESSAGE_RECV_PEER = OP_ATTR_DTYPE + 1, MESSAGE_RECV_TAG, MESSAGE_RECV_VALUE };

#endif
