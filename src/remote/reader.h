/*
 * reader.h - remote: the thread that connects, and reads where no caller does.
 */
#ifndef REMOTE_READER_H
#define REMOTE_READER_H

void *reader_main(void *remote);

#endif
