typedef float Pixel;
